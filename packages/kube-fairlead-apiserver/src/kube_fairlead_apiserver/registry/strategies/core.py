"""The core kinds that are not workloads: namespaces, nodes, configuration, accounts.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/namespace/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/node/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/configmap/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/secret/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/serviceaccount/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/v1/defaults.go
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Callable
from typing import ClassVar

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.metadata import validate_qualified_finalizer
from kube_fairlead_apiserver.registry.strategies import field_checks
from kube_fairlead_apiserver.registry.strategies.addresses import validate_range
from kube_fairlead_apiserver.registry.strategies.secret_types import validate_secret_type
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = [
    "ConfigMapStrategy",
    "NamespaceStrategy",
    "NodeStrategy",
    "SecretStrategy",
    "ServiceAccountStrategy",
    "validate_namespace_finalizer",
]

_MAX_DATA_BYTES = 1 << 20


class NamespaceStrategy(Strategy):
    """A namespace keeps its spec.finalizers until its content is deleted."""

    emptied_first: bool = True
    has_status: bool = True
    returns_deleted_object: bool = True
    name_rule: Callable[..., list[str]] = staticmethod(names.name_is_dns_label)
    selectable = frozenset({"status.phase"})

    def default(self, obj: Json) -> None:
        """Every namespace has its name as a label, for namespace selectors."""
        metadata = obj["metadata"]
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Active"

    def prepare_create(self, obj: Json) -> None:
        """A new namespace is Active, with the server's finalizer."""
        spec = obj.setdefault("spec", {})
        finalizers = spec.get("finalizers") or []
        if "kubernetes" not in finalizers:
            spec["finalizers"] = [*finalizers, "kubernetes"]
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, obj: Json, old: Json) -> None:
        """Finalizers change through the finalize subresource only."""
        super().prepare_update(obj, old)
        obj["spec"] = old.get("spec", {})

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate the finalizers."""
        path = FieldPath("spec", "finalizers")
        finalizers = (obj.get("spec") or {}).get("finalizers") or ()
        return [problem for finalizer in finalizers for problem in validate_namespace_finalizer(finalizer, path)]

    def validate_status_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Only a delete terminates a namespace: a phase set by a client would block every create in it."""
        del old
        phase, path = (obj.get("status") or {}).get("phase") or "", FieldPath("status", "Phase")
        if obj["metadata"].get("deletionTimestamp"):
            wanted, when = "Terminating", "not empty"
        else:
            wanted, when = "Active", "empty"
        if phase == wanted:
            return []
        return [FieldError.invalid(path, phase, f"may only be '{wanted}' if `deletionTimestamp` is {when}")]

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the phase."""
        return {"status.phase": (obj.get("status") or {}).get("phase") or ""}

    def prepare_delete(self, obj: Json, now: dt.datetime) -> None:
        """Set the phase Terminating."""
        del now
        obj.setdefault("status", {})["phase"] = "Terminating"

    def held_by(self, obj: Json) -> int:
        """Its own finalizers."""
        return len((obj.get("spec") or {}).get("finalizers") or ())


def validate_namespace_finalizer(finalizer: str, path: FieldPath) -> list[FieldError]:
    """Validate one finalizer of a namespace."""
    return [
        *field_checks.complaints(path, finalizer, names.qualified_name(finalizer)),
        *validate_qualified_finalizer(finalizer, path),
    ]


class NodeStrategy(Strategy):
    """Nodes keep their status; taints and the provider id follow Kubernetes' rules."""

    has_status: bool = True
    selectable = frozenset({"spec.unschedulable"})

    def default(self, obj: Json) -> None:
        """Default: allocatable is the capacity."""
        spec = obj.setdefault("spec", {})
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        status = obj.get("status") or {}
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, obj: Json) -> None:
        """A kubelet registers with its status, which is kept; unknown fields are empty."""
        status = obj.get("status")
        if not isinstance(status, dict):
            status = obj["status"] = {}
        status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
        status["nodeInfo"] = {**dict.fromkeys(_NODE_INFO, ""), **(status.get("nodeInfo") or {})}

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The provider id is immutable once set."""
        problems = self.validate(obj)
        cidrs = (old.get("spec") or {}).get("podCIDRs")
        if cidrs and (obj.get("spec") or {}).get("podCIDRs") != cidrs:
            problems.append(
                FieldError.forbidden(
                    FieldPath("spec").child("podCIDRs"), 'node updates may not change podCIDR except from "" to valid'
                )
            )
        before = (old.get("spec") or {}).get("providerID")
        now = (obj.get("spec") or {}).get("providerID")
        if before and now != before:
            problems.append(
                FieldError.forbidden(
                    FieldPath("spec").child("providerID"),
                    'node updates may not change providerID except from "" to valid',
                )
            )
        return problems

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate taints: a key, a known effect, no duplicates."""
        problems: list[FieldError] = []
        seen: set[tuple[str, str]] = set()
        path = FieldPath("metadata").child("taints")  # the path in Kubernetes' errors
        for index, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
            at = path.index(index)
            key, effect = taint.get("key") or "", taint.get("effect") or ""
            if not key:
                problems.append(FieldError.required(at.child("key"), ""))
            problems += [FieldError.invalid(at.child("key"), key, m) for m in names.qualified_name(key) if key]
            if not effect:
                problems.append(FieldError.required(at.child("effect"), ""))
            elif effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
                problems.append(
                    FieldError.not_supported(
                        at.child("effect"), effect, ("NoSchedule", "PreferNoSchedule", "NoExecute")
                    )
                )
            if (key, effect) in seen:
                problems.append(FieldError.duplicate(at, taint))
            seen.add((key, effect))
        for index, cidr in enumerate((obj.get("spec") or {}).get("podCIDRs") or ()):
            problems += validate_range(cidr, FieldPath("spec").item("podCIDRs", index))
        return problems

    def fields(self, obj: Json) -> dict[str, str]:
        """Return whether it is cordoned, as text."""
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}


_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


class _DataStrategy(Strategy):
    """ConfigMaps and Secrets: valid keys, bounded size, and `immutable`."""

    allow_create_on_update: bool = False
    data_fields: ClassVar[tuple[str, ...]] = ("data",)

    def validate(self, obj: Json) -> list[FieldError]:
        """Keys and size."""
        problems: list[FieldError] = []
        size = 0
        for field in self.data_fields:
            for key, value in (obj.get(field) or {}).items():
                problems += [
                    FieldError.invalid(FieldPath(field).key(key), key, message) for message in names.config_map_key(key)
                ]
                size += self.value_bytes(field, value)
        if size > _MAX_DATA_BYTES:
            problems.append(FieldError.too_long(FieldPath(self.data_fields[0]), "", _MAX_DATA_BYTES))
        return problems

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """With `immutable`, neither the data nor `immutable` can change."""
        problems = self.validate(obj)
        if not old.get("immutable"):
            return problems
        if not obj.get("immutable"):
            problems.append(FieldError.forbidden(FieldPath("immutable"), "field is immutable when `immutable` is set"))
        problems += [
            FieldError.forbidden(FieldPath(field), "field is immutable when `immutable` is set")
            for field in self.data_fields
            if (obj.get(field) or {}) != (old.get(field) or {})
        ]
        return problems

    def value_bytes(self, field: str, value: str) -> int:
        """Return the size of a value for the limit."""
        del field
        return len(value.encode())


class ConfigMapStrategy(_DataStrategy):
    """Configuration as text and bytes."""

    data_fields: ClassVar[tuple[str, ...]] = ("data", "binaryData")

    def validate(self, obj: Json) -> list[FieldError]:
        """A key is in data or in binaryData, not in both."""
        problems = super().validate(obj)
        both = (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys()
        problems += [
            FieldError.invalid(FieldPath("binaryData").key(key), key, f"duplicate of key present in data[{key}]")
            for key in sorted(both)
        ]
        return problems


class SecretStrategy(_DataStrategy):
    """Secrets: stringData is write-only."""

    returns_deleted_object: bool = False
    selectable = frozenset({"type"})

    def default(self, obj: Json) -> None:
        """Merge stringData into data; the default type is Opaque."""
        if not obj.get("type"):
            obj["type"] = "Opaque"
        plain = obj.pop("stringData", None)
        if plain:
            data = obj["data"] = dict(obj.get("data") or {})
            data.update({key: base64.b64encode(text.encode()).decode() for key, text in plain.items()})

    def validate(self, obj: Json) -> list[FieldError]:
        """Values are base64."""
        problems = super().validate(obj)
        for key, value in (obj.get("data") or {}).items():
            try:
                base64.b64decode(value or "", validate=True)
            except (binascii.Error, ValueError):
                problems.append(
                    FieldError.invalid(FieldPath("data").key(key), "<secret contents redacted>", "must be base64")
                )
        return problems + validate_secret_type(obj)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The type is immutable."""
        problems = super().validate_update(obj, old)
        if obj.get("type") != old.get("type"):
            problems.append(FieldError.invalid(FieldPath("type"), obj.get("type"), "field is immutable"))
        return problems

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the type."""
        return {"type": obj.get("type") or ""}

    def value_bytes(self, field: str, value: str) -> int:
        """What the value decodes to."""
        del field
        return len(value or "") * 3 // 4


class ServiceAccountStrategy(Strategy):
    """ServiceAccounts."""

    returns_deleted_object: bool = True
