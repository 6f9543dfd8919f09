"""A CustomResourceDefinition as data, and the kinds that it defines, compiled for serving.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresourcedefinition/strategy.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/v1/defaults.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/customresource_handler.go,
    k8s.io/apimachinery@v0.36.4/pkg/version/helpers.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresource/validator.go
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd.printer_columns import Columns
from kube_fairlead_apiserver.crd.schema_decoder import read_schema
from kube_fairlead_apiserver.jsonpath import print_value
from kube_fairlead_apiserver.schema import validation
from kube_fairlead_apiserver.schema.correlation import CorrelatedValue
from kube_fairlead_apiserver.schema.defaulting import apply_defaults, prune_nulls
from kube_fairlead_apiserver.schema.embedded_resources import coerce_embedded
from kube_fairlead_apiserver.schema.list_uniqueness import validate_lists
from kube_fairlead_apiserver.schema.model import SchemaNode, compile_schema
from kube_fairlead_apiserver.schema.pruning import prune

if TYPE_CHECKING:
    from kube_fairlead_apiserver.schema.validation_rules import RuleTree

__all__ = [
    "CustomResourceKind",
    "ScalePaths",
    "compile_kinds",
    "deprecation_warning",
    "prepare_for_create",
    "prepare_for_update",
    "set_defaults",
    "storage_version",
    "version_order",
]


_GO_TYPES: dict[type, str] = {
    bool: "bool",
    dict: "map[string]interface {}",
    float: "float64",
    int: "int64",
    list: "[]interface {}",
    str: "string",
}
_KUBE_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


class ScalePaths(msgspec.Struct, frozen=True):
    """The paths of the scale subresource, each a list of field names from the object's root."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    label_selector: tuple[str, ...] | None


class CustomResourceKind(msgspec.Struct, frozen=True):
    """One compiled version of a CRD: everything that a request for its objects needs."""

    group: str
    version: str
    kind: str
    list_kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    namespaced: bool
    served: bool
    storage: bool
    warning: str  # the warning for requests of a deprecated version; empty if it is not deprecated
    node: SchemaNode
    make_rules: Callable[[], RuleTree | None]  # compiled when the first object is validated
    columns: Columns
    has_status: bool
    scale: ScalePaths | None
    selectable_fields: Mapping[str, tuple[str, ...]]  # field selector key -> field names from the root

    @property
    def rules(self) -> RuleTree | None:
        """The rules of the schema, if it has any."""
        return self.make_rules()

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}"

    def decode(self, obj: Json) -> tuple[FieldError | None, list[str]]:
        """Convert an object of a client in place: prune, check metadata, remove nulls, apply defaults.

        Returns why it cannot be decoded, and the paths of unknown fields, which are removed.
        """
        unknown = prune(self.node, obj)
        error, unknown_metadata = coerce_embedded(self.node, obj)
        if error is None:
            apply_defaults(self.node, obj)
        return error, sorted(unknown + unknown_metadata)

    def restore(self, obj: Json) -> None:
        """Convert an object that is stored in this version to the current schema, in place."""
        self.adopt(obj)
        apply_defaults(self.node, obj)

    def adopt(self, obj: Json) -> None:
        """Convert an object of another version to this one in place: unknown fields are removed.

        No defaults are applied: as in Kubernetes, defaults apply to objects of clients and to stored objects.
        """
        prune(self.node, obj)
        prune_nulls(self.node, obj)
        coerce_embedded(self.node, obj, root=False)

    def validate(self, obj: Json, old: Json | None = None, *, warnings: list[str] | None = None) -> list[FieldError]:
        """Return all errors of schema and rules. The registry validates metadata."""
        errors = validation.validate(self.node, obj, old=old)
        errors += self._validate_scale(obj, spec=True)
        return self._with_rules(errors, obj, old, warnings)

    def validate_status(self, obj: Json, old: Json, *, warnings: list[str] | None = None) -> list[FieldError]:
        """Return the errors of an update of the status subresource: its own part of the schema, and every rule."""
        errors: list[FieldError] = []
        status = self.node.properties.get("status")
        if status is not None and "status" in obj:
            pair = CorrelatedValue(self.node, obj, old).field("status")
            errors += validation.validate_schema(status, obj["status"], FieldPath("status"), pair)
        errors += self._validate_scale(obj, spec=False)
        if not validate_lists(self.node, old):
            errors += validate_lists(self.node, obj)
        return self._with_rules(errors, obj, old, warnings)

    def _with_rules(
        self, errors: list[FieldError], obj: Json, old: Json | None, warnings: list[str] | None
    ) -> list[FieldError]:
        validation_rules = self.rules
        if validation_rules is None:
            return errors
        blocked = validation.blocks_rules(errors)
        return errors + ([blocked] if blocked else validation_rules.validate(obj, old=old, warnings=warnings))

    def _validate_scale(self, obj: Json, *, spec: bool) -> list[FieldError]:
        if self.scale is None:
            return []
        errors: list[FieldError] = []
        paths = (self.scale.spec_replicas, self.scale.status_replicas)
        for path in paths if spec else paths[1:]:
            shown = "." + ".".join(path)
            value = _nested(obj, path)
            if value is None:
                continue
            if value.__class__ is not int:
                errors.append(FieldError.invalid(shown, 0, _accessor_error(shown, value, "int64")))
            elif value < 0:
                errors.append(FieldError.invalid(shown, value, "should be a non-negative integer"))
            elif value > 2**31 - 1:
                errors.append(FieldError.invalid(shown, value, f"should be less than or equal to {2**31 - 1}"))
        if self.scale.label_selector is not None:
            shown = "." + ".".join(self.scale.label_selector)
            selector = _nested(obj, self.scale.label_selector)
            if selector is not None and selector.__class__ is not str:
                errors.append(FieldError.invalid(shown, "", _accessor_error(shown, selector, "string")))
        return errors


def _nested(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _accessor_error(path: str, value: Any, expected: str) -> str:
    shown = print_value(value)
    return f"{path} accessor error: {shown} is of the type {_GO_TYPES[value.__class__]}, expected {expected}"


def set_defaults(crd: Json) -> None:
    """Set the defaults of a CRD in place, and remove nulls that mean nothing."""
    spec = crd["spec"] = _without_nulls(crd.get("spec") or {})
    names = spec.setdefault("names", {})
    for version in spec.get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            cleaned, errors = read_schema(schema, FieldPath())
            if not errors:
                version["schema"]["openAPIV3Schema"] = cleaned
    kind = names.get("kind") or ""
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443
    status = crd.get("status")
    if status is not None and not status.get("storedVersions"):
        status["storedVersions"] = [name] if (name := storage_version(crd)) else []


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [{} if item is None else _without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    # Null has a meaning in some fields of a schema, so a schema is decoded by its own module.
    return {
        key: item if key == "openAPIV3Schema" else _without_nulls(item)
        for key, item in value.items()
        if item is not None
    }


def storage_version(crd: Json) -> str:
    """Return the version that objects are stored in; empty when the CRD names none."""
    versions = (crd.get("spec") or {}).get("versions") or ()
    return next((version.get("name", "") for version in versions if version.get("storage")), "")


def prepare_for_create(crd: Json) -> None:
    """Replace the status in place by a new one: clients cannot set it."""
    stored = storage_version(crd)
    crd["status"] = {
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": [],
        "storedVersions": [stored] if stored else [],
    }


def prepare_for_update(crd: Json, old: Json) -> None:
    """Restore the old status in place and record the storage version: objects stay stored in it until migrated."""
    status = dict(old.get("status") or {})
    stored = storage_version(crd)
    if stored and stored not in (status.get("storedVersions") or ()):
        status["storedVersions"] = [*(status.get("storedVersions") or ()), stored]
    crd["status"] = status


def compile_kinds(crd: Json) -> dict[str, CustomResourceKind]:
    """Compile every version of a valid CRD, by its name, served or not: stored objects must be readable."""
    return {version["name"]: _compile(crd, version) for version in crd["spec"]["versions"]}


def _compile(crd: Json, version: Json) -> CustomResourceKind:
    spec = crd["spec"]
    names = (crd.get("status") or {}).get("acceptedNames") or {}
    if not names.get("plural"):
        names = spec["names"]
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    node = compile_schema(schema) if schema else SchemaNode(type="object", preserve_unknown_fields=True)
    subresources = version.get("subresources") or {}
    return CustomResourceKind(
        group=spec["group"],
        version=version["name"],
        kind=names.get("kind", ""),
        list_kind=names.get("listKind", ""),
        plural=names.get("plural", ""),
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec["scope"] == "Namespaced",
        served=bool(version.get("served")),
        storage=bool(version.get("storage")),
        warning=deprecation_warning(spec, version),
        node=node,
        make_rules=functools.cache(lambda: _compile_rules(node)),
        columns=Columns(version.get("additionalPrinterColumns") or ()),
        has_status=subresources.get("status") is not None,
        scale=_scale(subresources.get("scale")),
        selectable_fields={
            field["jsonPath"].removeprefix("."): _split(field["jsonPath"])
            for field in version.get("selectableFields") or ()
        },
    )


def _compile_rules(node: SchemaNode) -> RuleTree | None:
    from kube_fairlead_apiserver.schema import (
        validation_rules,  # imports CEL, which a server without custom kinds never needs
    )

    return validation_rules.compile_rules(node)


def _scale(scale: Json | None) -> ScalePaths | None:
    if scale is None:
        return None
    selector = scale.get("labelSelectorPath")
    return ScalePaths(
        _split(scale["specReplicasPath"]),
        _split(scale["statusReplicasPath"]),
        _split(selector) if selector else None,
    )


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def deprecation_warning(spec: Json, version: Json) -> str:
    """Return the Warning header of a deprecated version: its own text, or the served version to use instead."""
    if not version.get("deprecated"):
        return ""
    own: str | None = version.get("deprecationWarning")
    if own is not None:
        return own
    group, kind = spec["group"], spec["names"]["kind"]
    better = [
        other["name"]
        for other in spec["versions"]
        if other.get("served")
        and not other.get("deprecated")
        and version_order(other["name"]) > version_order(version["name"])
    ]
    use = f"; use {group}/{max(better, key=version_order)} {kind}" if better else ""
    return f"{group}/{version['name']} {kind} is deprecated{use}"


@functools.total_ordering
class _Reversed:
    """Text that sorts in reverse order: versions that are not Kubernetes-like sort backwards, below those that are."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and other.text == self.text

    def __lt__(self, other: _Reversed) -> bool:
        return other.text < self.text

    def __hash__(self) -> int:
        return hash(self.text)


def version_order(name: str) -> tuple[Any, ...]:
    """Return a sort key: v2 above v1 above v1beta2 above v1alpha1 above anything else."""
    match = _KUBE_VERSION.fullmatch(name)
    if match is None:
        return (0, _Reversed(name))
    stability = {"alpha": 0, "beta": 1, None: 2}[match[2]]
    return (1, stability, int(match[1]), int(match[3] or 0))
