"""What the client must know of a resource: where it is served, and what its objects are decoded to."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar

import msgspec

from fairlead.api.gvk import GroupVersionKind, GroupVersionResource
from fairlead.client import errors

__all__ = ["Page", "Resource", "describe"]

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class Page(Generic[_T]):
    """A list, or a part of one."""

    items: list[_T]
    resource_version: str
    continue_token: str = ""  # where the next page begins; empty on the last
    remaining_item_count: int | None = None  # if the server says


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct, Generic[_T], frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _ListMeta = _ListMeta()
    items: list[_T] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Resource(Generic[_T]):
    """One resource, and the class of its objects: a typed kind, or dict."""

    gvr: GroupVersionResource
    type: type[_T]
    namespaced: bool | None = None  # None: the caller knows
    kind: GroupVersionKind | None = None
    _one: msgspec.json.Decoder[_T] = dataclasses.field(init=False, repr=False, compare=False)
    _many: msgspec.json.Decoder[_List[_T]] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_one", msgspec.json.Decoder(self.type))
        object.__setattr__(self, "_many", msgspec.json.Decoder(_List[self.type]))  # type: ignore[name-defined]  # a runtime type

    @property
    def is_typed(self) -> bool:
        """Whether objects are of a class of their own."""
        return self.type is not dict

    def decode(self, body: bytes | msgspec.Raw) -> _T:
        """One object.

        Raises:
            AnswerInvalid: the body is something else.
        """
        try:
            return self._one.decode(body)
        except msgspec.DecodeError as error:
            raise errors.AnswerInvalid(f"the server's {self} cannot be read: {error}") from error

    def decode_list(self, body: bytes) -> Page[_T]:
        """A list of objects.

        Raises:
            AnswerInvalid: the body is something else.
        """
        try:
            listed = self._many.decode(body)
        except msgspec.DecodeError as error:
            raise errors.AnswerInvalid(f"the server's list of {self} cannot be read: {error}") from error
        items = listed.items or []
        if not self.is_typed:
            # Servers leave both out in lists of built-in kinds; an object that says what it is can be sent back.
            kind = listed.kind.removesuffix("List")
            for item in items:
                _say_what_it_is(item, listed.api_version, kind)
        metadata = listed.metadata
        return Page(items, metadata.resource_version, metadata.continue_token, metadata.remaining_item_count)

    def __str__(self) -> str:
        return str(self.gvr.group_resource)


def _say_what_it_is(item: Any, api_version: str, kind: str) -> None:
    item.setdefault("apiVersion", api_version)
    item.setdefault("kind", kind)


def describe(kind: GroupVersionResource | Resource[Any] | type[Any]) -> Resource[Any]:
    """The resource of a typed kind, or of a bare group, version and plural."""
    if isinstance(kind, Resource):
        return kind
    if isinstance(kind, GroupVersionResource):
        return Resource(kind, dict)
    raise NotImplementedError
