"""Objects from and to bytes: as plain dictionaries, or as the typed kinds of `kube_fairlead.api`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import meta, wire
from kube_fairlead.client import errors
from kube_fairlead.client.watch import Bookmark, Change, ChangeType, WatchEvent

__all__ = ["Codec", "DictCodec", "Page", "TypedCodec"]

_T = TypeVar("_T")
_ObjectT = TypeVar("_ObjectT", bound=meta.KubeObject)

# Set on the bookmark that ends a streamed list.
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclasses.dataclass(frozen=True, slots=True)
class Page(Generic[_T]):
    """A list, or a part of one."""

    items: list[_T]
    resource_version: str
    continue_token: str = ""  # where the next page begins; empty on the last
    remaining_item_count: int | None = None  # if the server says


class Codec(Protocol[_T]):
    """How the objects of one resource are read and written. Whatever cannot be read raises AnswerInvalid."""

    def decode(self, body: bytes) -> _T:
        """One object."""
        ...

    def decode_list(self, body: bytes) -> Page[_T]:
        """A list of objects."""
        ...

    def decode_event(self, line: bytes) -> WatchEvent[_T]:
        """One line of a watch. Raises the ApiError that an ERROR event describes; Expired means list again."""
        ...

    def encode(self, item: _T) -> bytes:
        """The body of a write."""
        ...


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _ListMeta = _ListMeta()
    items: list[dict[str, Any]] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: dict[str, Any]


_dicts = msgspec.json.Decoder(dict[str, Any])
_lists = msgspec.json.Decoder(_List)
_events = msgspec.json.Decoder(_Event)


class DictCodec:
    """Objects as plain dictionaries, everything in them."""

    def decode(self, body: bytes) -> dict[str, Any]:
        """One object."""
        try:
            return _dicts.decode(body)
        except msgspec.DecodeError as error:
            raise _unreadable("object", error) from error

    def decode_list(self, body: bytes) -> Page[dict[str, Any]]:
        """A list of objects."""
        try:
            listed = _lists.decode(body)
        except msgspec.DecodeError as error:
            raise _unreadable("list", error) from error
        items = listed.items or []
        # Servers leave both out in lists of built-in kinds; an object that says what it is can be sent back.
        kind = listed.kind.removesuffix("List")
        for item in items:
            item.setdefault("apiVersion", listed.api_version)
            item.setdefault("kind", kind)
        found = listed.metadata
        return Page(items, found.resource_version, found.continue_token, found.remaining_item_count)

    def decode_event(self, line: bytes) -> WatchEvent[dict[str, Any]]:
        """One line of a watch."""
        try:
            event = _events.decode(line)
            match event.type:
                case "BOOKMARK":
                    metadata = event.object["metadata"]
                    return _bookmark(metadata["resourceVersion"], metadata.get("annotations"))
                case "ERROR":
                    raise api_errors.from_status(event.object)
                case name:
                    return Change(ChangeType(name), event.object)
        except (msgspec.DecodeError, ValueError, KeyError) as error:
            raise _unreadable("watch event", error) from error

    def encode(self, item: Mapping[str, Any]) -> bytes:
        """The body of a write."""
        return msgspec.json.encode(item)


class TypedCodec(Generic[_ObjectT]):
    """Objects as a typed kind. With `keep` they carry the fields that the kind does not name, at the price of memory.

    Without it an object must only ever be read: written back, it would lose those fields.
    """

    def __init__(self, kind: type[_ObjectT], *, api_version: str = "", keep: bool = True) -> None:
        self._kind = kind
        self._api_version = api_version
        self._keep = keep

    def decode(self, body: bytes) -> _ObjectT:
        """One object."""
        try:
            return wire.decode(self._kind, body, keep=self._keep)
        except wire.DecodeError as error:
            raise _unreadable("object", error) from error

    def decode_list(self, body: bytes) -> Page[_ObjectT]:
        """A list of objects."""
        try:
            page = wire.decode_list(self._kind, body, keep=self._keep)
        except wire.DecodeError as error:
            raise _unreadable("list", error) from error
        found = page.metadata
        return Page(list(page.items), found.resource_version, found.continue_token, found.remaining_item_count)

    def decode_event(self, line: bytes) -> WatchEvent[_ObjectT]:
        """One line of a watch."""
        try:
            event = wire.decode_event(self._kind, line, keep=self._keep)
            if event.type == meta.WatchEventType.BOOKMARK:
                metadata = event.object.metadata
                return _bookmark(metadata.resource_version, metadata.annotations)
            return Change(ChangeType(event.type), event.object)
        except ValueError as error:
            raise _unreadable("watch event", error) from error

    def encode(self, item: _ObjectT) -> bytes:
        """The body of a write.

        Raises:
            ValueError: the object was read without what its kind does not name, and writing it would lose that.
        """
        if not self._keep and item.metadata.uid:
            raise ValueError(f"{type(item).__name__} {item.key} was read with keep=False and must not be written back")
        # The group of the lifecycle kinds is a setting, which their class does not know.
        if self._api_version and item.api_version != self._api_version:
            item = wire.replace(item, api_version=self._api_version)
        return wire.encode(item)


def _bookmark(version: str, annotations: Mapping[str, str] | None) -> Bookmark:
    return Bookmark(version, ends_initial_events=(annotations or {}).get(_INITIAL_EVENTS_END) == "true")


def _unreadable(what: str, error: Exception) -> errors.AnswerInvalid:
    return errors.AnswerInvalid(f"the server sent a Kubernetes {what} that cannot be read: {error}")
