"""Validates a CustomResourceDefinition, with Kubernetes' field errors.

Kubernetes validates an internal form that has the common parts of all versions at the top (``spec.validation``,
``spec.subresources``, ...). The paths in its errors are those of the internal form, so they are the same here. An
update is not rejected for a rule that the stored CRD already violates.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/validation/validation.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresourcedefinition/strategy.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.cel import string_formats
from kube_fairlead_apiserver.crd import conditions, structural
from kube_fairlead_apiserver.crd.rule_validation import RuleContext
from kube_fairlead_apiserver.crd.schema_decoder import read_schema
from kube_fairlead_apiserver.crd.schema_defaults import validate_defaults
from kube_fairlead_apiserver.crd.schema_validation import (
    TYPES,
    SchemaRequirements,
    any_schema,
    set_of_granular_items,
    validate_keyed_lists,
    validate_openapi,
)
from kube_fairlead_apiserver.crd.spec_parts import (
    validate_columns,
    validate_conversion,
    validate_names,
    validate_selectable_fields,
    validate_subresources,
)
from kube_fairlead_apiserver.schema.model import compile_schema

__all__ = ["unrecognized_formats", "validate_create", "validate_status", "validate_update"]


_SPEC = FieldPath("spec")
# JSON names allowed at the root of a schema whose status is a subresource, under Go's names in the message.
_AT_ROOT = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations"
)
_FORBIDDEN_AT_ROOT = (
    *("id", "$schema", "$ref", "nullable", "default", "enum", "maxProperties", "minProperties", "allOf", "oneOf"),
    *("anyOf", "not", "additionalProperties", "patternProperties", "dependencies", "additionalItems", "definitions"),
    *("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-list-type", "x-kubernetes-map-type"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class _ValidationOptions:
    """The rules that apply to this CRD; an update is exempt from those that the stored CRD violates."""

    limits: SchemaRequirements = dataclasses.field(default_factory=SchemaRequirements)
    schema: bool = True
    structural: bool = True
    pruned_defaults: bool = True
    review_version: bool = True
    many_selectable_fields: frozenset[str] = frozenset()  # versions that may keep too many of them
    unchanged: frozenset[str] = frozenset()  # versions whose schema is the stored one
    webhooks: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _InternalSpec:
    """A spec with the common parts of all versions at the top, and only the differences in the versions."""

    versions: list[Json]
    validation: Json | None
    subresources: Json | None
    columns: list[Json]
    selectable: list[Json]


def validate_create(crd: Json, *, webhooks: bool = False) -> list[FieldError]:
    """Return the errors of a new CRD with defaults. Without ``webhooks`` this server calls no conversion webhook."""
    if errors := _unreadable(crd["spec"]):
        return errors
    errors = [*_validate_name(crd), *_validate_spec(crd["spec"], _ValidationOptions(webhooks=webhooks))]
    return [*errors, *_validate_rest(crd, None)]


def validate_update(crd: Json, old: Json, *, webhooks: bool = False) -> list[FieldError]:
    """Return the errors of a changed CRD against the stored one."""
    spec, before = crd["spec"], old["spec"]
    if errors := _unreadable(spec):
        return errors
    errors = [*_validate_spec(spec, _options_of_update(spec, before, webhooks=webhooks))]
    fixed = [("group",), ("names", "plural")]
    if conditions.is_established(old):
        fixed = [("scope",), ("names", "kind"), *fixed]
    for path in fixed:
        new_value, old_value = _at(spec, path), _at(before, path)
        if new_value != old_value:
            errors.append(FieldError.invalid(_SPEC.child(*path), new_value, "field is immutable"))
    return [*errors, *_validate_rest(crd, old)]


def validate_status(crd: Json) -> list[FieldError]:
    """Return the errors of a CRD's status."""
    return validate_names((crd.get("status") or {}).get("acceptedNames") or {}, FieldPath("status", "acceptedNames"))


def unrecognized_formats(crd: Json) -> list[str]:
    """Return the unknown formats in a CRD's schemas, each once, for a warning."""
    found: dict[str, None] = {}

    def note(schema: Json) -> bool:
        name = schema.get("format") or ""
        if name and not string_formats.known_format(name, schema.get("type", "")):
            found[name] = None
        return False

    for schema in _schemas(crd["spec"]):
        any_schema(schema, note)
    return list(found)


def _unreadable(spec: Json) -> list[FieldError]:
    """Return what Go's decoder rejects before validation."""
    errors: list[FieldError] = []
    for index, version in enumerate(spec.get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        where = _SPEC.child("versions").index(index).child("schema", "openAPIV3Schema")
        errors += [] if schema is None else read_schema(schema, where)[1]
    return errors


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = (value or {}).get(name)
    return value or ""


def _validate_name(crd: Json) -> Iterator[FieldError]:
    spec = crd["spec"]
    path = FieldPath("metadata", "name")
    name = (crd.get("metadata") or {}).get("name") or ""
    if not name:
        yield FieldError.required(path, "name or generateName is required")
        return
    for message in names.name_is_dns_subdomain(name):
        yield FieldError.invalid(path, name, message)
    if name != f"{_at(spec, ('names', 'plural'))}.{_at(spec, ('group',))}":
        yield FieldError.invalid(path, name, 'must be spec.names.plural+"."+spec.group')


def _validate_rest(crd: Json, old: Json | None) -> Iterator[FieldError]:
    yield from validate_status(crd)
    yield from _validate_stored_versions(crd)
    yield from _validate_approval(crd, old)
    if crd["spec"].get("preserveUnknownFields") and not (old and old["spec"].get("preserveUnknownFields")):
        problem = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield FieldError.invalid(_SPEC.child("preserveUnknownFields"), True, problem)


def _validate_stored_versions(crd: Json) -> Iterator[FieldError]:
    path = FieldPath("status", "storedVersions")
    stored = (crd.get("status") or {}).get("storedVersions")
    if not stored:
        yield FieldError.invalid(path, stored, "must have at least one stored version")
        return
    missing = {name: index for index, name in enumerate(stored)}
    for version in crd["spec"].get("versions") or ():
        name = version.get("name", "")
        if version.get("storage") and name not in missing:
            yield FieldError.invalid(path, stored, f"must have the storage version {name}")
        missing.pop(name, None)
    for name, index in missing.items():
        problem = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
            "status.storedVersions"
        )
        yield FieldError.invalid(path.index(index), name, problem)


def _validate_approval(crd: Json, old: Json | None) -> Iterator[FieldError]:
    if not conditions.is_protected_group(crd["spec"].get("group") or ""):
        return
    state, reason = conditions.approval_state(crd)
    if old is not None and conditions.approval_state(old)[0] == state:
        return
    path = FieldPath("metadata", "annotations").key(conditions.APPROVED_ANNOTATION)
    if state == "MissingAnnotation":
        yield FieldError.required(path, reason)
    elif state == "InvalidAnnotation":
        yield FieldError.invalid(path, crd["metadata"]["annotations"][conditions.APPROVED_ANNOTATION], reason)


def _schemas(spec: Json) -> Iterator[Json]:
    for version in spec.get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            yield schema


def _options_of_update(spec: Json, before: Json, *, webhooks: bool) -> _ValidationOptions:
    """Return the rules for an update of this stored spec: all that the stored spec satisfies."""
    nowhere = FieldPath()

    def broken(schema: Json) -> bool:
        return bool(structural.conversion_problem(schema) or structural.validate_structural(schema, nowhere))

    def nowhere_in(holds: Any) -> bool:
        return not any(any_schema(schema, holds) for schema in _schemas(before))

    old_versions = before.get("versions") or []
    old_selectable = {version["name"]: version.get("selectableFields") or [] for version in old_versions}
    kept = {
        version["name"]
        for version in spec.get("versions") or ()
        if len(old_selectable.get(version["name"], [])) > 8
        and version.get("selectableFields") == old_selectable[version["name"]]
    }
    review = ((before.get("conversion") or {}).get("webhook") or {}).get("conversionReviewVersions") or ()
    return _ValidationOptions(
        limits=SchemaRequirements(
            valid_types=nowhere_in(lambda schema: schema.get("type", "") not in {"", *TYPES}),
            atomic_sets=nowhere_in(
                lambda schema: (
                    schema.get("x-kubernetes-list-type") == "set"
                    and isinstance(schema.get("items"), dict)
                    and bool([*set_of_granular_items(schema, nowhere)])
                )
            ),
            complete_map_keys=nowhere_in(lambda schema: bool([*validate_keyed_lists(schema, nowhere)])),
        ),
        schema=all((version.get("schema") or {}).get("openAPIV3Schema") is not None for version in old_versions),
        structural=not any(broken(schema) for schema in _schemas(before)),
        pruned_defaults=not any(
            error.detail == "must not have unknown fields"
            for schema in _schemas(before)
            if not broken(schema)
            for error in validate_defaults(compile_schema(schema), nowhere)
        ),
        review_version=not review or any(name in {"v1", "v1beta1"} for name in review),
        many_selectable_fields=frozenset(kept),
        unchanged=frozenset(
            version["name"]
            for version in spec.get("versions") or ()
            if any(
                other.get("name") == version["name"] and other.get("schema") == version.get("schema")
                for other in old_versions
            )
        ),
        webhooks=webhooks,
    )


def _internal_spec(spec: Json) -> _InternalSpec:
    versions = spec.get("versions") or []

    def agreed(key: str) -> Any:
        values = [version.get(key) or None if key != "subresources" else version.get(key) for version in versions]
        return values[0] if values and all(value == values[0] for value in values) else None

    internal = {key: agreed(key) for key in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")}
    return _InternalSpec(
        [{key: value for key, value in version.items() if internal.get(key) is None} for version in versions],
        internal["schema"],
        internal["subresources"],
        internal["additionalPrinterColumns"] or [],
        internal["selectableFields"] or [],
    )


def _validate_spec(spec: Json, options: _ValidationOptions) -> Iterator[FieldError]:
    group = spec.get("group") or ""
    if not group:
        yield FieldError.required(_SPEC.child("group"))
    elif messages := names.dns1123_subdomain(group):
        yield FieldError.invalid(_SPEC.child("group"), group, ",".join(messages))
    elif "." not in group:
        yield FieldError.invalid(_SPEC.child("group"), group, "should be a domain with at least one dot")
    scope = spec.get("scope") or ""
    if not scope:
        yield FieldError.required(_SPEC.child("scope"))
    elif scope not in {"Cluster", "Namespaced"}:
        yield FieldError.not_supported(_SPEC.child("scope"), scope, ("Cluster", "Namespaced"))
    internal = _internal_spec(spec)
    preserve = bool(spec.get("preserveUnknownFields"))
    if not preserve:
        options = dataclasses.replace(options, structural=True)
    yield from _require_schemas(spec, options)
    if any(any_schema(schema, lambda part: part.get("default") is not None) for schema in _schemas(spec)):
        options = dataclasses.replace(options, structural=True)
        if preserve:
            problem = "must be false in order to use defaults in the schema"
            yield FieldError.invalid(_SPEC.child("preserveUnknownFields"), True, problem)
    for index, version in enumerate(internal.versions):
        yield from _validate_version(version, internal, _SPEC.child("versions").index(index), options)
    yield from _validate_version_list(spec)
    wanted = spec.get("names") or {}
    for key in ("plural", "singular", "kind", "listKind"):
        if not wanted.get(key):
            yield FieldError.required(_SPEC.child("names", key))
    yield from validate_names(wanted, _SPEC.child("names"))
    has_status = any(
        (version.get("subresources") or {}).get("status") is not None for version in spec.get("versions") or ()
    )
    first = next((version.get("name", "") for version in spec.get("versions") or ()), "")
    where = _SPEC.child("validation")
    yield from _validate_schema(internal.validation, where, options, version=first, has_status=has_status)
    yield from validate_subresources(internal.subresources, _SPEC.child("subresources"))
    yield from validate_columns(internal.columns, _SPEC.child("additionalPrinterColumns"))
    if internal.selectable:
        where = _SPEC.child("selectableFields")
        if internal.validation is None:
            yield FieldError.invalid(where, "", "may only be set when validations.schema is included")
        else:
            yield from validate_selectable_fields(internal.selectable, internal.validation, where, may_be_many=False)
    yield from validate_conversion(
        spec.get("conversion") or {},
        _SPEC.child("conversion"),
        preserve_unknown_fields=preserve,
        require_review_version=options.review_version,
        webhooks=options.webhooks,
    )


def _require_schemas(spec: Json, options: _ValidationOptions) -> Iterator[FieldError]:
    for index, version in enumerate(spec.get("versions") or ()):
        if (version.get("schema") or {}).get("openAPIV3Schema") is not None:
            continue
        where = _SPEC.child("versions").index(index).child("schema", "openAPIV3Schema")
        if options.schema:
            yield FieldError.required(where)
        elif version.get("served") and not spec.get("preserveUnknownFields"):
            yield FieldError.required(where, "because otherwise all fields are pruned")


def _validate_version_list(spec: Json) -> Iterator[FieldError]:
    versions = spec.get("versions")
    found = [version.get("name", "") for version in versions or ()]
    if len(set(found)) != len(found):
        yield FieldError.invalid(_SPEC.child("versions"), versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions or ()) != 1:
        problem = "must have exactly one version marked as storage version"
        yield FieldError.invalid(_SPEC.child("versions"), versions, problem)
    if found and (messages := names.dns1035_label(found[0])):
        yield FieldError.invalid(_SPEC.child("version"), found[0], ",".join(messages))


def _validate_version(
    version: Json, internal: _InternalSpec, path: FieldPath, options: _ValidationOptions
) -> Iterator[FieldError]:
    name = version.get("name", "")
    if messages := names.dns1035_label(name):
        yield FieldError.invalid(path.child("name"), name, ",".join(messages))
    warning = version.get("deprecationWarning")
    for problem in _deprecation_problems(version):
        yield FieldError.invalid(path.child("deprecationWarning"), warning, problem)
    subresources = version.get("subresources")
    effective = subresources if internal.subresources is None else internal.subresources
    has_status = (effective or {}).get("status") is not None
    where = path.child("schema")
    yield from _validate_schema(version.get("schema"), where, options, version=name, has_status=has_status)
    yield from validate_subresources(subresources, path.child("subresources"))
    yield from validate_columns(version.get("additionalPrinterColumns") or [], path.child("additionalPrinterColumns"))
    if selectable := version.get("selectableFields"):
        where = path.child("selectableFields")
        schema = version.get("schema")
        if not schema or schema.get("openAPIV3Schema") is None:
            problem = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield FieldError.invalid(where, "", problem)
        else:
            many = name in options.many_selectable_fields
            yield from validate_selectable_fields(selectable, schema, where, may_be_many=many)


def _deprecation_problems(version: Json) -> Iterator[str]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode()) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    for index, char in enumerate(warning):
        if not char.isprintable():
            offset = len(warning[:index].encode())
            yield f"must only contain printable UTF-8 characters; non-printable character found at index {offset}"
            return


def _validate_schema(
    validation: Json | None, path: FieldPath, options: _ValidationOptions, *, version: str, has_status: bool
) -> Iterator[FieldError]:
    schema = (validation or {}).get("openAPIV3Schema")
    if schema is None:
        return
    where = path.child("openAPIV3Schema")
    errors: list[FieldError] = []
    if has_status:
        errors += _validate_root_with_status(schema, path, where)
    if schema.get("nullable"):
        errors.append(
            FieldError.forbidden(path.child("openAPIV3Schema.nullable"), "nullable cannot be true at the root")
        )
    context: RuleContext | None = None
    unstructured = ""
    extended = any_schema(schema, _uses_extensions)
    if options.structural or extended:
        unstructured = structural.conversion_problem(schema)
        if not unstructured:
            problems = structural.validate_structural(schema, where) or validate_defaults(
                compile_schema(schema), where, require_pruned=options.pruned_defaults
            )
            errors += problems
            context = None if problems else RuleContext(limited=version not in options.unchanged)
    errors += validate_openapi(schema, where, options.limits, context)
    if unstructured and not errors:
        errors.append(FieldError.invalid(where, "", unstructured))
    if context is not None:
        errors += context.total.errors(where)
    yield from errors


def _uses_extensions(schema: Json) -> bool:
    return schema.get("x-kubernetes-preserve-unknown-fields") is not None or any(
        structural.is_set(schema, f"x-kubernetes-{name}")
        for name in ("embedded-resource", "int-or-string", "list-map-keys", "list-type", "validations")
    )


def _validate_root_with_status(schema: Json, path: FieldPath, where: FieldPath) -> Iterator[FieldError]:
    """Validate the root of a schema whose status is a subresource: it may not have rules about the status."""
    if schema.get("type", "") not in {"", "object"}:
        problem = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield FieldError.invalid(path.child("openAPIV3Schema.type"), schema["type"], problem)
    elif any(structural.is_set(schema, key) or schema.get(key) == 0 for key in _FORBIDDEN_AT_ROOT if key in schema):
        problem = f"only [{_AT_ROOT}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield FieldError.invalid(where, schema, problem)
