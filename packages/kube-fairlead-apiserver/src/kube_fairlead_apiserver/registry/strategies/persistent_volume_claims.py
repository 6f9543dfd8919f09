"""PersistentVolumeClaims, by themselves and as templates inside other kinds.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/persistentvolumeclaim/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/api/persistentvolumeclaim/util.go
"""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.quantity import Quantity, QuantityError
from kube_fairlead.api.validation.selectors import validate_label_selector
from kube_fairlead_apiserver.registry.strategies import field_checks
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = [
    "VOLUME_MODES",
    "PersistentVolumeClaimStrategy",
    "default_claim",
    "positive_quantity",
    "validate_access_modes",
    "validate_claim_spec",
]

VOLUME_MODES: Final = ("Block", "Filesystem")

_SPEC: Final = FieldPath("spec")
_SOURCES: Final = ("dataSource", "dataSourceRef")
_OLD_SOURCES: Final = frozenset({("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")})
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_FIXED: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def default_claim(claim: Json) -> None:
    """The volume mode is Filesystem by default; a new claim is Pending."""
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    status = claim.get("status")
    if not isinstance(status, dict):
        status = claim["status"] = {}
    if not status.get("phase"):
        status["phase"] = "Pending"


def positive_quantity(value: Any, path: FieldPath) -> list[FieldError]:
    """Validate a positive quantity. The decoder already rejected an invalid one."""
    try:
        amount = Quantity.parse(str(value))
    except QuantityError:
        return []
    return [] if amount > Quantity(0) else [FieldError.invalid(path, str(amount), "must be greater than zero")]


def validate_access_modes(modes: list[str], path: FieldPath) -> list[FieldError]:
    """Access modes; ReadWriteOncePod excludes all others."""
    problems = [FieldError.not_supported(path, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    known = {mode for mode in modes if mode in _ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        problems.append(FieldError.forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return problems


def validate_claim_spec(spec: Json, path: FieldPath) -> list[FieldError]:
    """Validate the spec of a claim: size and access modes."""
    problems: list[FieldError] = []
    modes = spec.get("accessModes") or []
    if not modes:
        problems.append(FieldError.required(path.child("accessModes"), "at least 1 access mode is required"))
    if spec.get("selector") is not None:
        problems += validate_label_selector(spec["selector"], path.child("selector"))
    problems += validate_access_modes(modes, path.child("accessModes"))
    at = path.child("resources").key("storage")
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    problems += [FieldError.required(at, "")] if storage is None else positive_quantity(storage, at)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            problems += field_checks.complaints(path.child(field), spec[field], names.dns1123_subdomain(spec[field]))
    problems += field_checks.one_of(spec, path, "volumeMode", VOLUME_MODES)
    source, reference = (spec.get(field) for field in _SOURCES)
    for field, given in zip(_SOURCES, (source, reference), strict=True):
        if given is not None:
            problems += _validate_source(given, path.child(field))
    if source is not None and reference is not None and _local(source) != _local(reference):
        problems.append(FieldError.invalid(path, {}, "must match dataSourceRef"))
    return problems


def _validate_source(source: Json, path: FieldPath) -> list[FieldError]:
    problems = [FieldError.required(path.child(field), "") for field in ("name", "kind") if not source.get(field)]
    if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        problems.append(FieldError.invalid(path, source.get("kind") or "", text))
    if source.get("apiGroup"):
        group = source["apiGroup"]
        problems += field_checks.complaints(path.child("apiGroup"), group, names.dns1123_subdomain(group))
    return problems


def _local(reference: Json) -> Json:
    """Return a reference without its namespace; the group is written even when it is empty."""
    return {"apiGroup": reference.get("apiGroup"), "kind": reference.get("kind"), "name": reference.get("name")}


def _settle_sources(spec: Json, before: Json) -> None:
    """Make dataSource and dataSourceRef equal: dataSource is the older form."""
    source, reference = (spec.get(field) for field in _SOURCES)
    if reference is not None and reference.get("namespace") and before.get("dataSourceRef") is None:
        reference = None  # a source in another namespace needs a feature that is off by default
    had_any = any(before.get(field) is not None for field in _SOURCES)
    if source is not None and reference is None and not had_any:
        # The older form could never name another kind; a client that tried got an empty volume.
        known = (source.get("apiGroup") or "", source.get("kind") or "") in _OLD_SOURCES
        source = source if known else None
    if reference is None and source is not None:
        reference = _local(source)
    elif source is None and reference is not None and not reference.get("namespace"):
        source = _local(reference)
    for field, settled in zip(_SOURCES, (source, reference), strict=True):
        if settled is None:
            spec.pop(field, None)
        else:
            spec[field] = {"apiGroup": None, **settled}


class PersistentVolumeClaimStrategy(Strategy):
    """PersistentVolumeClaims: the spec is immutable, except the size of a bound claim."""

    has_status: bool = True
    returns_deleted_object: bool = True

    def default(self, obj: Json) -> None:
        """Default volume mode: Filesystem."""
        default_claim(obj)

    def prepare_create(self, obj: Json) -> None:
        """A new claim is Pending."""
        obj["status"] = {"phase": "Pending"}
        _settle_sources(obj.setdefault("spec", {}), {})

    def prepare_update(self, obj: Json, old: Json) -> None:
        """A client that knows one form of the source leaves out the other."""
        super().prepare_update(obj, old)
        _settle_sources(obj.setdefault("spec", {}), old.get("spec") or {})

    def validate(self, obj: Json) -> list[FieldError]:
        """A new claim."""
        return validate_claim_spec(obj.get("spec") or {}, _SPEC)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The spec is immutable, so that a claim cannot exceed what was counted at its creation."""
        problems = self.validate(obj)
        spec, before, status = obj.get("spec") or {}, dict(old.get("spec") or {}), old.get("status") or {}
        _settle_sources(before, before)  # it may have been stored before this rule existed
        if _lasting(spec, before, status) != _lasting(before, before, status):
            problems.append(FieldError.forbidden(_SPEC, _FIXED))
        size, had = (_storage(one.get("resources"), "requests") for one in (spec, before))
        if size < had and size <= _storage(status, "capacity"):
            at = _SPEC.child("resources", "requests", "storage")
            problems.append(FieldError.forbidden(at, "field can not be less than status.capacity"))
        return problems + field_checks.changed(spec, before, FieldPath(), "volumeMode")


def _lasting(spec: Json, before: Json, status: Json) -> Json:
    """Return a claim's spec without its mutable fields."""
    kept = dict(spec)
    if not before.get("volumeName"):
        kept.pop("volumeName", None)
    if before.get("storageClassName") is None:
        kept.pop("storageClassName", None)
    if status.get("phase") == "Bound":
        kept.pop("volumeAttributesClassName", None)
        resources = dict(kept.get("resources") or {})
        resources["requests"] = {k: v for k, v in (resources.get("requests") or {}).items() if k != "storage"}
        kept["resources"] = resources
    return kept


def _storage(holder: Json | None, field: str) -> Quantity:
    try:
        return Quantity.parse(str(((holder or {}).get(field) or {}).get("storage") or 0))
    except QuantityError:
        return Quantity(0)
