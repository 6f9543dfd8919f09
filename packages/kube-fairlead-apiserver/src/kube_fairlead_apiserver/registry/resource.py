"""One served resource: its names, its strategy, and the wire form of its objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import msgspec

from kube_fairlead.api.gvk import GroupKind, GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd.definition import CustomResourceKind
from kube_fairlead_apiserver.registry.custom_versions import CustomVersion
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.schema.defaulting import copy_json
from kube_fairlead_apiserver.schema.model import SchemaNode
from kube_fairlead_apiserver.storage.entries import HEAD, Entry, Origin

__all__ = [
    "ALL_VERBS",
    "Conversion",
    "Resource",
    "ScalePaths",
    "Subresource",
    "decode_entry",
    "decode_metadata",
    "encode_tail",
    "split_key",
]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Subresource(msgspec.Struct, frozen=True):
    """A subresource as discovery names it; its kind may belong to another group (Scale, Eviction)."""

    name: str
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = ("get", "patch", "update")


class ScalePaths(msgspec.Struct, frozen=True):
    """The paths of the fields of the scale subresource, as keys from the object down."""

    spec_replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    # A selector in the status is a string; one in the spec is a LabelSelector.
    selector: tuple[str, ...] | None = ("spec", "selector")


class Conversion(msgspec.Struct, frozen=True):
    """Conversion between a served version and the stored version. Both functions change the object in place."""

    to_stored: Callable[[Json], None]
    to_served: Callable[[Json], None]


@dataclasses.dataclass(slots=True, eq=False)
class Resource:
    """One resource: a group, a version and a plural name."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    strategy: Strategy
    schema: Callable[[], SchemaNode]
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = dataclasses.field(default_factory=dict)
    custom: CustomResourceKind | None = None  # set for a custom resource
    scale: ScalePaths | None = None  # the paths of replicas, when they differ from the usual ones
    field_aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)  # selector names of this version
    is_ending: bool = False  # its definition is being deleted: no new objects
    conversion: Conversion | None = None  # for a kind that is stored in another version
    shared: bool = False  # a built-in kind that is served in several versions
    custom_version: CustomVersion | None = None  # for a custom kind, which may be stored in another version or schema
    table: str = ""  # the table of the objects; versions of one kind share it
    head: bytes = b""
    item_head: bytes = b""
    api_version: str = dataclasses.field(default="", init=False)  # the apiVersion of objects
    # The resource and the kind as error messages name them: `deployments.apps`, `Deployment.apps`.
    group_resource: GroupResource = dataclasses.field(init=False)
    group_kind: GroupKind = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.api_version = f"{self.group}/{self.version}" if self.group else self.version
        self.group_resource = GroupResource(self.group, self.plural)
        self.group_kind = GroupKind(self.group, self.kind)
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or self.kind + "List"
        self.table = self.table or str(self.group_resource)
        typed = {"kind": self.kind, "apiVersion": self.api_version}
        # Up to and including the key of the resourceVersion, which is inserted when an object is sent.
        self.head = msgspec.json.encode(typed)[:-1] + b',"metadata":{"resourceVersion":'
        # Items of built-in lists have no kind; those of custom resources do.
        self.item_head = self.head if self.is_custom else HEAD + b'"resourceVersion":'

    @property
    def is_custom(self) -> bool:
        """Whether this is defined by a CustomResourceDefinition."""
        return self.custom is not None

    def selectable_fields(self) -> frozenset[str]:
        """Return the fields that a selector may name, besides metadata.name and metadata.namespace."""
        return self.strategy.selectable

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in the table."""
        return f"{namespace}/{name}" if self.namespaced else name

    @property
    def origin(self) -> Origin | None:
        """The origin of new objects."""
        return None if self.custom_version is None else self.custom_version.origin

    def shows_stored(self, entry: Entry) -> bool:
        """Return whether an object is served in its stored form, without decoding it."""
        return self.conversion is None if self.custom_version is None else self.custom_version.shows_stored(entry)

    def shown(self, entry: Entry) -> Entry:
        """Return a stored object as a client sees it, without kind and version: mostly the same entry."""
        if self.custom_version is not None:
            return self.custom_version.shown(entry)
        if self.conversion is None:
            return entry
        obj = msgspec.json.decode(entry.value)
        self.conversion.to_served(obj)
        return entry.showing(encode_tail(obj))

    def decode(self, entry: Entry) -> Json:
        """Return a stored object as a client sees it; the caller may change it."""
        obj = decode_entry(entry if self.custom_version is None else self.custom_version.shown(entry))
        if self.conversion is not None:
            self.conversion.to_served(obj)
        return {"apiVersion": self.api_version, "kind": self.kind, **obj}

    def stored(self, obj: Json) -> Json:
        """Return the object in the form it is stored in; the caller must not change it."""
        if self.custom_version is not None:
            return self.custom_version.stored(obj)
        if self.conversion is None:
            return obj
        stored: Json = copy_json(obj)
        self.conversion.to_stored(stored)
        return stored

    def returned(self, obj: Json) -> Json:
        """Return the object as the client sees it after a write.

        Storing it in another version may have dropped fields.
        """
        return obj if self.custom_version is None else self.custom_version.returned(obj)

    def keeps(self, entry: Entry, obj: Json) -> bool:
        """Return whether storing an object that a client sees unchanged changes nothing."""
        return self.custom_version is None or self.custom_version.keeps(entry, obj)


def split_key(key: str) -> tuple[str, str]:
    """Return the namespace ("" for none) and name of a key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def decode_entry(entry: Entry) -> Json:
    """Return a stored object without kind and version, with its resource version."""
    obj: Json = msgspec.json.decode(entry.value)
    obj["metadata"]["resourceVersion"] = str(entry.revision)
    return obj


class _Metadata(msgspec.Struct):
    """The metadata of a stored object. Skipping everything else takes a fraction of the time."""

    metadata: Json


def decode_metadata(entry: Entry) -> Json:
    """Return the metadata of a stored object, with its resource version."""
    metadata = msgspec.json.decode(entry.value, type=_Metadata).metadata
    metadata["resourceVersion"] = str(entry.revision)
    return metadata


def encode_tail(obj: Json) -> bytes:
    """Return the stored form of an object: metadata first, without kind, apiVersion and resourceVersion."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    rest = {key: value for key, value in obj.items() if key not in {"apiVersion", "kind", "metadata"}}
    stored = {"metadata": metadata, **rest}
    return msgspec.json.encode(stored)[len(HEAD) :]
