"""The form of a response: the object itself, its metadata only, or a Table.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/response.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/negotiation/negotiate.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.yamltext import emitter
from kube_fairlead_apiserver import printers
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.http.streams import PIECE_BYTES, Text
from kube_fairlead_apiserver.offload import LARGE_BYTES, weigh
from kube_fairlead_apiserver.operations.core import WriteResult
from kube_fairlead_apiserver.registry.resource import Resource, decode_metadata
from kube_fairlead_apiserver.storage.entries import Change, Entry
from kube_fairlead_apiserver.verbs.call import Call

__all__ = [
    "PLAIN",
    "ResponseFormat",
    "bookmark_event",
    "check_include",
    "event",
    "metadata_of",
    "metadata_only",
    "negotiate",
    "one_entry",
    "one_object",
    "outcome",
    "stored_event",
    "stored_item",
    "table",
    "to_yaml",
    "weigh_form",
]

_JSON = "application/json"
_YAML = "application/yaml"
_ACCEPTED = (_JSON, _YAML, "application/json;stream=watch")


class ResponseFormat(msgspec.Struct, frozen=True):
    """The negotiated form. ``view`` is "" for the object itself, else Table or PartialObjectMetadata(List)."""

    media: str = _JSON
    view: str = ""
    view_version: str = "v1"

    @property
    def plain(self) -> bool:
        """Whether stored bytes can be sent as they are."""
        return not self.view and self.media == _JSON

    @property
    def plain_media(self) -> bool:
        """Whether it is JSON."""
        return self.media == _JSON

    @property
    def stream_type(self) -> str:
        """The media type of a watch in this form."""
        return f"{_JSON};stream=watch" if self.view else _JSON

    @property
    def api_version(self) -> str:
        """The version of the view's own kind."""
        return f"meta.k8s.io/{self.view_version}"


PLAIN = ResponseFormat()


def negotiate(request: Request, *, stream: bool = False) -> ResponseFormat:
    """Return the first form of the Accept header that this server supports."""
    accept = request.header("accept")
    if accept in {"", "*/*", _JSON}:
        return PLAIN
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media not in {"*/*", "application/*", _JSON, _YAML}:
            continue
        if media == _YAML and stream:
            continue
        values = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        form = _form(_YAML if media == _YAML else _JSON, values)
        if form is not None:
            return form
    raise errors.not_acceptable(_ACCEPTED)


def _form(media: str, parameters: Mapping[str, str]) -> ResponseFormat | None:
    view = parameters.get("as", "")
    if not view:
        return ResponseFormat(media)
    known = view in {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
    version = parameters.get("v", "v1")
    if not known or parameters.get("g", "meta.k8s.io") != "meta.k8s.io" or version not in {"v1", "v1beta1"}:
        return None
    return ResponseFormat(media, view, version)


async def one_entry(call: Call, form: ResponseFormat, entry: Entry, status: int = 200) -> Response:
    """Return a stored object."""
    weigh(len(entry.tail))
    weigh_form(call, form)
    if form.plain and call.request.query.flag("pretty"):
        return Response(status, await call.core.offload.run(_pretty, call, entry))
    if form.plain:
        return Response(status, await _stored_body(call, entry))
    obj = await call.core.offload.run(call.resource.decode, entry)
    return await call.core.offload.run(one_object, call, form, obj, status)


def weigh_form(call: Call, form: ResponseFormat) -> bool:
    """Return whether an object is costly to encode regardless of its size. Then the thread encodes it."""
    custom = call.resource.custom
    is_costly = form.view == "Table" and custom is not None and custom.columns.is_costly
    if is_costly:
        weigh(LARGE_BYTES)
    return is_costly


async def outcome(call: Call, form: ResponseFormat, result: WriteResult, status: int = 200) -> Response:
    """Return the result of a write; stored bytes are sent unchanged."""
    resource = call.resource
    if result.entry is not None and form.plain:
        return Response(status, await _stored_body(call, result.entry))
    weigh_form(call, form)
    return await call.core.offload.run(lambda: one_object(call, form, resource.returned(result.obj), status))


def one_object(call: Call, form: ResponseFormat, obj: Json, status: int = 200) -> Response:
    """Return an object that is not stored."""
    if form.view == "Table":
        obj = table(call, form, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
    elif form.view:
        obj = metadata_only(form, obj)
    return Response(status, _encode(form, obj), form.media)


def stored_item(resource: Resource, entry: Entry) -> Text:
    """Return an item of a list in its stored form. A long one is not copied."""
    head = resource.item_head
    return entry.wire(head) if len(entry.tail) <= PIECE_BYTES else entry.wire_parts(head)


def stored_event(call: Call, kind: str, entry: Entry, change: Change | None) -> Text:
    """Return one line of a watch with an object in its stored form.

    A short one is encoded once for all watchers of the same change. A long one is not copied.
    """
    head = call.resource.head
    if len(entry.tail) > PIECE_BYTES:
        top, tail = entry.wire_parts(head)
        return b'{"type":"%b","object":%b' % (kind.encode(), top), tail, b"}\n"
    if change is None:
        return _line(kind, entry, head)
    key = (kind, head)
    return change.frames.get(key) or call.core.store.frames.keep(change, key, _line(kind, entry, head))


def event(call: Call, form: ResponseFormat, kind: str, entry: Entry) -> bytes:
    """Return one line of a watch, encoded for one watcher. May be called in a thread."""
    resource = call.resource
    if form.plain:
        return _line(kind, resource.shown(entry), resource.head)
    if form.view == "Table":
        shown = table(call, form, [resource.decode(entry)], {"resourceVersion": str(entry.revision)})
    else:
        shown = metadata_of(resource, form, entry) if form.view else resource.decode(entry)
    return msgspec.json.encode({"type": kind, "object": shown}) + b"\n"


def _line(kind: str, entry: Entry, head: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), entry.wire(head))


def bookmark_event(call: Call, form: ResponseFormat, revision: int, annotations: Mapping[str, str] | None) -> bytes:
    """Return the line of a bookmark."""
    metadata: Json = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = dict(annotations)
    obj: Json = {"kind": call.resource.kind, "apiVersion": call.resource.api_version, "metadata": metadata}
    if form.view == "Table":
        obj = table(call, form, [], metadata)
        # kubectl reads the version from the one row that a bookmark's table carries.
        obj["rows"] = [{"cells": [], "object": {**metadata_only(form, {"metadata": metadata})}}]
    elif form.view:
        obj = metadata_only(form, obj)
    return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def check_include(call: Call, form: ResponseFormat) -> str:
    """Return the object of a table row, as includeObject says."""
    include = call.request.query.get("includeObject") or "Metadata"
    if form.view == "Table" and include not in {"None", "Metadata", "Object"}:
        raise errors.BadRequest(f'unrecognized includeObject value: "{include}"')
    return include


def table(
    call: Call,
    form: ResponseFormat,
    objects: Sequence[Json],
    meta: Mapping[str, Any],
    *,
    now: dt.datetime | None = None,
) -> Json:
    """Objects as the rows of a table. A stream of tables has its headers once."""
    include = check_include(call, form)
    headers, call.headers_sent = not call.headers_sent, True
    return printers.table(
        call.resource,
        objects,
        now=now or call.core.clock.now(),
        include=include,
        version=form.view_version,
        meta=meta,
        headers=headers,
    )


def metadata_only(form: ResponseFormat, obj: Json) -> Json:
    """Return the metadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": form.api_version, "metadata": obj["metadata"]}


def metadata_of(resource: Resource, form: ResponseFormat, entry: Entry) -> Json:
    """Return the metadata of a stored object. The rest is not decoded where it cannot matter."""
    if resource.conversion is not None:
        return metadata_only(form, resource.decode(entry))
    return metadata_only(form, {"metadata": decode_metadata(entry)})


async def _stored_body(call: Call, entry: Entry) -> bytes | list[bytes]:
    """Return a stored object on the wire. A long one in its stored form is not copied."""
    resource = call.resource
    if not resource.shows_stored(entry):
        entry = await call.core.offload.run(resource.shown, entry)
    return entry.wire(resource.head) if len(entry.tail) <= PIECE_BYTES else [*entry.wire_parts(resource.head)]


def _pretty(call: Call, entry: Entry) -> bytes:
    """Indented JSON, for `?pretty`."""
    return msgspec.json.format(call.resource.shown(entry).wire(call.resource.head), indent=2)


def _encode(form: ResponseFormat, value: Json) -> bytes:
    return msgspec.json.encode(value) if form.plain_media else to_yaml(value)


def to_yaml(value: Any) -> bytes:
    """Return a value as YAML."""
    return emitter.write(value, sort_keys=True).encode()
