"""What a review must hold before it is acted on: any program that reaches the port can send anything."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import msgspec

from kube_fairlead.api import names
from kube_fairlead.api.admission_v1 import AdmissionRequest
from kube_fairlead.api.json_object import Json

__all__ = ["Deletion", "Malformed", "deletion_of"]


class Malformed(ValueError):
    """Raised when a review is JSON, but not what an API server sends. The message names the field."""


@dataclasses.dataclass(frozen=True, slots=True)
class Deletion:
    """A delete as a review shows it."""

    obj: Json
    options: Json
    name: str
    namespace: str
    uid: str


class _Metadata(msgspec.Struct, rename="camel"):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    uid: Annotated[str, msgspec.Meta(min_length=1)]
    resource_version: Annotated[str, msgspec.Meta(min_length=1)]
    namespace: str | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Options(msgspec.Struct, rename="camel"):
    grace_period_seconds: int | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    preconditions: _Preconditions | None = None


def deletion_of(request: AdmissionRequest) -> Deletion:
    """The delete in a review.

    Raises:
        Malformed: no API server sends this.
    """
    asked = request.resource
    for field, value, problems in (
        ("group", asked.group, names.dns1123_subdomain),
        ("version", asked.version, names.dns1123_label),
        ("resource", asked.resource, names.dns1123_label),
    ):
        wrong = problems(value)
        if wrong:
            raise Malformed(f"request.resource.{field}: {value!r}: {wrong[0]}")
    metadata = _converted("request.oldObject", request.old_object, _Object).metadata
    options = request.options if request.options is not None else {}
    _converted("request.options", options, _Options)
    return Deletion(request.old_object, options, metadata.name, metadata.namespace or "", metadata.uid)


def _converted(field: str, value: object, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Malformed(f"{field}: {error}") from None
