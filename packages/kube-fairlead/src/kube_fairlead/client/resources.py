"""What the client must know of a resource: where it is served, and how its objects are read and written."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar

from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.scheme import Scheme
from kube_fairlead.client.codecs import Codec, DictCodec, TypedCodec

__all__ = ["Resource", "describe"]

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class Resource(Generic[_T]):
    """One resource."""

    gvr: GroupVersionResource
    codec: Codec[_T]
    namespaced: bool | None = None  # None: the caller knows

    def __str__(self) -> str:
        return str(self.gvr.group_resource)


def describe(
    kind: GroupVersionResource | Resource[Any] | type[Any], scheme: Scheme, *, keep: bool = True
) -> Resource[Any]:
    """The resource of a typed kind, or of a bare group, version and plural.

    Raises:
        LookupError: the class stands for no kind that the scheme knows.
    """
    if isinstance(kind, Resource):
        return kind
    if isinstance(kind, GroupVersionResource):
        return Resource(kind, DictCodec(), _scope(kind, scheme))
    try:
        known = scheme.by_class(kind)
    except KeyError:
        raise LookupError(f"{kind.__module__}.{kind.__name__} is no kind that the API serves") from None
    return Resource(known.gvr, TypedCodec(kind, api_version=known.api_version, keep=keep), known.namespaced)


def _scope(gvr: GroupVersionResource, scheme: Scheme) -> bool | None:
    try:
        return scheme.by_resource(gvr).namespaced
    except KeyError:
        return None
