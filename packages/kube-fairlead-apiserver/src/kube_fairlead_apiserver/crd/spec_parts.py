"""Validates the parts of a CRD's spec besides its schemas: names, subresources, columns, conversion.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/validation/validation.go,
    k8s.io/apiserver@v0.36.4/pkg/util/webhook/validation.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd.structural import conversion_problem
from kube_fairlead_apiserver.schema.field_paths import resolve_field_path
from kube_fairlead_apiserver.schema.model import SchemaNode, compile_schema

__all__ = [
    "validate_columns",
    "validate_conversion",
    "validate_names",
    "validate_selectable_fields",
    "validate_subresources",
]


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_REVIEW_VERSIONS = ("v1", "v1beta1")  # of ConversionReview
_SELECTABLE_FIELDS_MAX = 8
_SELECTABLE_TYPES = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
_MIXED_CASE = "may have mixed case, but should otherwise match: "
_URL_FORM = "; desired format: https://host[/path]"


def validate_names(given: Json, path: FieldPath) -> list[FieldError]:
    """Validate the names of a CRD; missing names are not reported here."""
    errors: list[FieldError] = []
    for key in ("plural", "singular", "kind", "listKind"):
        name = given.get(key) or ""
        mixed = key in {"kind", "listKind"}
        if name and (messages := names.dns1035_label(name.lower() if mixed else name)):
            detail = (_MIXED_CASE if mixed else "") + ",".join(messages)
            errors.append(FieldError.invalid(path.child(key), name, detail))
    errors += _validate_labels(given.get("shortNames") or (), path.child("shortNames"))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        problem = "kind and listKind may not be the same"
        errors.append(FieldError.invalid(path.child("listKind"), given["listKind"], problem))
    errors += _validate_labels(given.get("categories") or (), path.child("categories"))
    return errors


def _validate_labels(labels: Any, path: FieldPath) -> Iterator[FieldError]:
    for index, label in enumerate(labels):
        if messages := names.dns1035_label(label):
            yield FieldError.invalid(path.index(index), label, ",".join(messages))


def validate_subresources(subresources: Json | None, path: FieldPath) -> Iterator[FieldError]:
    """Validate the paths of the scale subresource."""
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for key, roots in (("specReplicasPath", ("spec",)), ("statusReplicasPath", ("status",))):
        where = path.child(f"scale.{key}")
        if scale.get(key):
            yield from _validate_path_under(scale[key], roots, where)
        else:
            yield FieldError.required(where)
    if selector := scale.get("labelSelectorPath"):
        yield from _validate_path_under(selector, ("spec", "status"), path.child("scale.labelSelectorPath"))


def _validate_path_under(text: str, roots: tuple[str, ...], path: FieldPath) -> Iterator[FieldError]:
    errors = [*_validate_simple_path(text, path)]
    if not errors and not any(text.startswith(f".{root}.") for root in roots):
        allowed = f".{roots[0]}" if len(roots) == 1 else "either " + " or ".join(f".{root}" for root in roots)
        errors.append(FieldError.invalid(path, text, f"should be a json path under {allowed}"))
    yield from errors


def _validate_simple_path(text: str, path: FieldPath) -> Iterator[FieldError]:
    if not text.startswith("."):
        yield FieldError.invalid(path, text, "must be a simple json path starting with .")


def validate_columns(columns: list[Json], path: FieldPath) -> Iterator[FieldError]:
    """Validate the printer columns."""
    for index, column in enumerate(columns):
        where = path.index(index)
        if not column.get("name"):
            yield FieldError.required(where.child("name"))
        kind = column.get("type") or ""
        problem = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            yield FieldError.required(where.child("type"), problem)
        elif kind not in _COLUMN_TYPES:
            yield FieldError.invalid(where.child("type"), kind, problem)
        if (shape := column.get("format")) and shape not in _COLUMN_FORMATS:
            yield FieldError.invalid(where.child("format"), shape, f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not column.get("jsonPath"):
            yield FieldError.required(where.child("JSONPath"))
        else:
            yield from _validate_simple_path(column["jsonPath"], where.child("JSONPath"))


def validate_selectable_fields(
    fields: list[Json], validation: Json, path: FieldPath, *, may_be_many: bool
) -> Iterator[FieldError]:
    """Validate the fields for field selectors: scalars that the schema declares, at most eight."""
    schema = validation.get("openAPIV3Schema") or {}
    problem = conversion_problem(schema)
    if problem:
        parent = FieldPath(str(path).removesuffix(".selectableFields"))
        yield FieldError.invalid(parent.child("schema.openAPIV3Schema"), "", problem)
    node = SchemaNode() if problem else compile_schema(schema)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where = path.index(index).child("jsonPath")
        text = field.get("jsonPath") or ""
        if not text:
            yield FieldError.required(where)
            continue
        try:
            found, leaf = resolve_field_path(text, node, brackets=False)
        except ValueError as error:
            yield FieldError.invalid(where, text, f"is an invalid path: {error}")
            continue
        if re.split(r"[.\[]", str(found))[0] == "metadata":
            yield FieldError.invalid(where, text, "must not point to fields in metadata")
        if leaf.type not in {"string", "boolean", "integer"}:
            yield FieldError.invalid(where, text, _SELECTABLE_TYPES)
        if str(found) in seen:
            yield FieldError.duplicate(where, text)
        seen.add(str(found))
    if len(seen) > _SELECTABLE_FIELDS_MAX and not may_be_many:
        yield FieldError.too_many(path, len(seen), _SELECTABLE_FIELDS_MAX)


def validate_conversion(
    conversion: Json, path: FieldPath, *, preserve_unknown_fields: bool, require_review_version: bool, webhooks: bool
) -> Iterator[FieldError]:
    """Validate the conversion between versions; ``webhooks``: this server can call conversion webhooks."""
    strategy = conversion.get("strategy") or ""
    if strategy not in {"", "None"} and preserve_unknown_fields:
        problem = "must be None if spec.preserveUnknownFields is true"
        yield FieldError.invalid(path.child("strategy"), strategy, problem)
    supported = ("None", "Webhook") if webhooks else ("None",)
    if not strategy:
        yield FieldError.required(path.child("strategy"))
    elif strategy not in supported:
        yield FieldError.not_supported(path.child("strategy"), strategy, supported)
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if strategy == "Webhook":
        yield from _validate_client(config, path.child("webhookClientConfig"))
        where = path.child("conversionReviewVersions")
        yield from _validate_review_versions(versions or [], where, required=require_review_version)
        return
    for key, value in (("webhookClientConfig", config), ("conversionReviewVersions", versions)):
        if value:
            yield FieldError.forbidden(path.child(key), "should not be set when strategy is not set to Webhook")


def _validate_client(config: Json | None, path: FieldPath) -> Iterator[FieldError]:
    if config is None:
        yield FieldError.required(path, "required when strategy is set to Webhook")
        return
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield FieldError.required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _validate_url(url, path.child("url"))
    elif service is not None:
        yield from _validate_service(service, path.child("service"))


def _validate_url(text: str, path: FieldPath) -> Iterator[FieldError]:
    try:
        url = urlsplit(text)
    except ValueError as error:
        yield FieldError.required(path, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if url.scheme != "https":
        yield FieldError.invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    user, at, host = url.netloc.rpartition("@")
    if not host:
        yield FieldError.invalid(path, "", f"host must be specified{_URL_FORM}")
    if at:
        yield FieldError.invalid(path, user, "user information is not permitted in the URL")
    if url.fragment:
        yield FieldError.invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield FieldError.invalid(path, url.query, "query parameters are not permitted in the URL")


def _validate_service(service: Json, path: FieldPath) -> Iterator[FieldError]:
    # Kubernetes swaps the two arguments here, so each is reported under the other's name.
    for key, other in (("namespace", "name"), ("name", "namespace")):
        if not service.get(key):
            yield FieldError.required(path.child(other))
    port = service.get("port", 443)
    if messages := names.port_number(port):
        yield FieldError.invalid(path.child("port"), port, "port is not valid: " + ", ".join(messages))
    text = service.get("path") or "/"
    if text == "/":
        return
    where = path.child("path")
    if text == "//":
        yield FieldError.invalid(where, text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        yield FieldError.invalid(where, text, "must start with a '/'")
    for index, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if not segment:
            yield FieldError.invalid(where, text, f"segment[{index}] may not be empty")
            continue
        for message in names.dns1123_subdomain(segment):
            yield FieldError.invalid(where, text, f"segment[{index}]: {message}")


def _validate_review_versions(versions: list[str], path: FieldPath, *, required: bool) -> Iterator[FieldError]:
    if not versions:
        yield FieldError.required(path)
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield FieldError.invalid(path.index(index), version, "duplicate version")
            continue
        seen.add(version)
        for message in names.dns1035_label(version):
            yield FieldError.invalid(path.index(index), version, message)
    if required and not any(version in _REVIEW_VERSIONS for version in versions):
        yield FieldError.invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")
