"""Reads, orders, limits and writes the entries of `metadata.managedFields`.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/managedfields.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/capmanagers.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/buildmanagerinfo.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/fieldpath/managers.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kube_fairlead.api import golang
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time, parse_time
from kube_fairlead_apiserver.patch.apply import fieldset
from kube_fairlead_apiserver.patch.apply.elements import MalformedFieldsError
from kube_fairlead_apiserver.patch.apply.fieldset import FieldSet

__all__ = [
    "MAX_MANAGER_LENGTH",
    "MAX_UPDATE_MANAGERS",
    "Identity",
    "Managed",
    "capped",
    "encode",
    "entry",
    "is_reset",
    "manager_name",
    "read_stored",
    "read_untrusted",
    "with_managed_fields",
]


MAX_MANAGER_LENGTH = 128
MAX_UPDATE_MANAGERS = 10  # of more, the oldest are merged into one
_OLD_UPDATES = "ancient-changes"


class Identity(NamedTuple):
    """Identifies an entry. An applier has one entry for all versions, an updater one for each version."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    @classmethod
    def of(cls, manager: str, operation: str, api_version: str, subresource: str) -> Identity:
        """Return the identity of a new entry; a manager without a name is `unknown`."""
        return cls(manager or "unknown", operation, "" if operation == "Apply" else api_version, subresource)

    def __str__(self) -> str:
        """Return the manager as a conflict names it: `"kubectl" with subresource "status" using v1`."""
        text = golang.quote(self.manager)
        if self.subresource:
            text += f" with subresource {golang.quote(self.subresource)}"
        if self.operation == "Update":
            text += f" using {self.api_version}"
        return text


Managed = dict[Identity, Json]  # the entries in wire form


def manager_name(field_manager: str, user_agent: str) -> str:
    """Return the field manager of a request: the parameter, else the program's name in User-Agent."""
    if field_manager:
        return field_manager
    name = "".join(char for char in user_agent.split("/", 1)[0] if char.isprintable())
    return name.encode()[:MAX_MANAGER_LENGTH].decode(errors="ignore")


def entry(identity: Identity, api_version: str, fields: FieldSet, time: str | None) -> Json:
    """Build an entry, its fields in Kubernetes' order."""
    result: Json = {"manager": identity.manager, "operation": identity.operation, "apiVersion": api_version}
    if time is not None:
        result["time"] = time
    result["fieldsType"] = "FieldsV1"
    result["fieldsV1"] = fields
    if identity.subresource:
        result["subresource"] = identity.subresource
    return result


def is_reset(managed_fields: Any) -> bool:
    """Return whether a client resets all managers, by an empty list or one empty entry. No list keeps them."""
    return isinstance(managed_fields, list) and managed_fields in ([], [{}])


def read_stored(managed_fields: Any) -> Managed:
    """Read the entries of a stored object. They are not validated, because this server wrote them."""
    return {_identity(found): found for found in managed_fields or ()}


def _identity(found: Mapping[str, Any]) -> Identity:
    operation = found["operation"]
    return Identity(
        found.get("manager", ""),
        operation,
        "" if operation == "Apply" else found["apiVersion"],
        found.get("subresource", ""),
    )


def read_untrusted(managed_fields: Any) -> Managed:
    """Read and validate the entries of a client, in canonical form. MalformedFieldsError describes the problem."""
    managed: Managed = {}
    if managed_fields is None:
        return managed
    if not isinstance(managed_fields, list):
        raise MalformedFieldsError("managedFields must be a list")
    for position, found in enumerate(managed_fields):
        if not isinstance(found, dict):
            raise MalformedFieldsError(f"managed fields entry {position} must be an object")
        if found.get("operation") not in {"Apply", "Update"}:
            raise MalformedFieldsError("operation must be `Apply` or `Update`")
        for name in ("manager", "apiVersion", "subresource"):
            if not isinstance(found.get(name, ""), str):
                raise MalformedFieldsError(f"{name} must be a string in managed fields entry {position}")
        if not found.get("apiVersion"):
            raise MalformedFieldsError("apiVersion must not be empty")
        if not found.get("fieldsType"):
            raise MalformedFieldsError(f"missing fieldsType in managed fields entry {position}")
        if found["fieldsType"] != "FieldsV1":
            kind = golang.quote(str(found["fieldsType"]))
            raise MalformedFieldsError(f"invalid fieldsType {kind} in managed fields entry {position}")
        time = found.get("time")
        if time is not None:
            try:
                time = format_time(parse_time(str(time)))
            except ValueError as error:
                raise MalformedFieldsError(str(error)) from None
        identity = _identity(found)
        managed[identity] = entry(identity, found["apiVersion"], fieldset.parse(found.get("fieldsV1")), time)
    return managed


def encode(managed: Managed) -> list[Json]:
    """Return the list in its stored order: appliers first, then by time, manager, version and subresource."""
    return sorted(
        managed.values(),
        key=lambda found: (
            found["operation"],
            found.get("time") or "",
            found.get("manager", ""),
            found["apiVersion"],
            found.get("subresource", ""),
        ),
    )


def capped(managed: Managed) -> Managed:
    """Merge the oldest updaters of each version until the maximum number of entries is left."""
    updaters = [identity for identity in managed if identity.operation == "Update"]
    if len(updaters) <= MAX_UPDATE_MANAGERS:
        return managed
    updaters.sort(key=lambda identity: (managed[identity].get("time") or "", identity))
    result = dict(managed)
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    first_of_version: dict[str, Identity] = {}
    gathered: dict[Identity, list[FieldSet]] = {}
    for identity in updaters:
        if excess <= 0:
            break
        version = managed[identity]["apiVersion"]
        bucket = Identity(_OLD_UPDATES, "Update", version, "")
        first = first_of_version.setdefault(version, identity)
        if first is identity:
            continue
        if bucket not in result:
            result[bucket] = result.pop(first)
        # The time of the newest merged entry.
        result[bucket] = entry(bucket, version, result[bucket]["fieldsV1"], result[identity].get("time"))
        if identity != bucket:
            gathered.setdefault(bucket, []).append(result.pop(identity)["fieldsV1"])
        excess -= 1
    for bucket, sets in gathered.items():
        result[bucket]["fieldsV1"] = fieldset.union_all([*reversed(sets), result[bucket]["fieldsV1"]])
    return result


def with_managed_fields(value: Json, entries: list[Json]) -> Json:
    """Return the object with these entries in its metadata, or without managedFields if there are none."""
    metadata = dict(value.get("metadata") or {})
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)
    return {**value, "metadata": metadata}
