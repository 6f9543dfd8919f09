"""The form an answer takes: the object itself, its metadata only, or a table for people to read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairlead.api import errors
from fairlead.api.yamltext import writing
from fairlead.apiserver import printers
from fairlead.apiserver.http.messages import Json, Request, Response
from fairlead.apiserver.offload import weigh
from fairlead.apiserver.operations.core import Outcome
from fairlead.apiserver.storage.records import Change, Entry
from fairlead.apiserver.verbs.call import Call

__all__ = [
    "PLAIN",
    "Form",
    "bookmark_event",
    "check_include",
    "event",
    "metadata_only",
    "negotiate",
    "one_entry",
    "one_object",
    "outcome",
    "table",
    "to_yaml",
]

_JSON = "application/json"
_YAML = "application/yaml"
_ACCEPTED = (_JSON, _YAML, "application/json;stream=watch")


class Form(msgspec.Struct, frozen=True):
    """What was negotiated. ``view`` is "" for the object itself, else Table or PartialObjectMetadata(List)."""

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


PLAIN = Form()


def negotiate(request: Request, *, stream: bool = False) -> Form:
    """The first form of the Accept header that this server can give."""
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


def _form(media: str, parameters: Mapping[str, str]) -> Form | None:
    view = parameters.get("as", "")
    if not view:
        return Form(media)
    known = view in {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
    version = parameters.get("v", "v1")
    if not known or parameters.get("g", "meta.k8s.io") != "meta.k8s.io" or version not in {"v1", "v1beta1"}:
        return None
    return Form(media, view, version)


async def one_entry(call: Call, form: Form, entry: Entry, status: int = 200) -> Response:
    """A stored object."""
    weigh(len(entry.value))
    if form.plain:
        return Response(status, _pretty(call, call.resource.shown(entry).wire(call.resource.head)))
    obj = await call.core.offload.run(call.resource.decode, entry)
    return await call.core.offload.run(one_object, call, form, obj, status)


async def outcome(call: Call, form: Form, result: Outcome, status: int = 200) -> Response:
    """What came of a write; stored bytes are sent as they are."""
    resource = call.resource
    if result.entry is not None and form.plain:
        return Response(status, resource.shown(result.entry).wire(resource.head))
    return await call.core.offload.run(lambda: one_object(call, form, resource.returned(result.obj), status))


def one_object(call: Call, form: Form, obj: Json, status: int = 200) -> Response:
    """An object in hand."""
    if form.view == "Table":
        obj = table(call, form, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
    elif form.view:
        obj = metadata_only(form, obj)
    return Response(status, _encode(form, obj), form.media)


def event(call: Call, form: Form, kind: str, entry: Entry, change: Change | None) -> bytes:
    """One line of a watch. Plain ones are encoded once for all watchers of the same change."""
    resource = call.resource
    if form.plain:
        in_words = resource.shown(entry)
        if change is None or in_words is not entry:
            return _line(kind, in_words, resource.head)
        key = (kind, resource.head)
        return change.frames.get(key) or call.core.store.frames.keep(change, key, _line(kind, entry, resource.head))
    obj = resource.decode(entry)
    shown = obj
    if form.view:
        meta = {"resourceVersion": str(entry.revision)}
        shown = table(call, form, [obj], meta) if form.view == "Table" else metadata_only(form, obj)
    return msgspec.json.encode({"type": kind, "object": shown}) + b"\n"


def _line(kind: str, entry: Entry, head: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), entry.wire(head))


def bookmark_event(call: Call, form: Form, revision: int, annotations: Mapping[str, str] | None) -> bytes:
    """A line that says how far the watch has come."""
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


def check_include(call: Call, form: Form) -> str:
    """What a row of a table carries of its object."""
    include = call.request.query.get("includeObject") or "Metadata"
    if form.view == "Table" and include not in {"None", "Metadata", "Object"}:
        raise errors.BadRequest(f'unrecognized includeObject value: "{include}"')
    return include


def table(
    call: Call, form: Form, objects: Sequence[Json], meta: Mapping[str, Any], *, now: dt.datetime | None = None
) -> Json:
    """Objects as the rows of a table. A stream of tables carries its headers once."""
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


def metadata_only(form: Form, obj: Json) -> Json:
    """An object without everything but its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": form.api_version, "metadata": obj["metadata"]}


def _pretty(call: Call, body: bytes) -> bytes:
    """Indented, for a person who asked for it."""
    return msgspec.json.format(body, indent=2) if call.request.query.flag("pretty") else body


def _encode(form: Form, value: Json) -> bytes:
    return msgspec.json.encode(value) if form.plain_media else to_yaml(value)


def to_yaml(value: Any) -> bytes:
    """A value as YAML."""
    return writing.write(value, sort_keys=True).encode()
