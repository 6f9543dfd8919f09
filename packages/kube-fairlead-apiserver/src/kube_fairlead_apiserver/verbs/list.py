"""GET a collection: whole, or in pages of one snapshot.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/get.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/continue.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/cacher/delegator.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/interfaces.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/etcd3/errors.go
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable

import msgspec

from kube_fairlead.api import errors
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.offload import weigh
from kube_fairlead_apiserver.storage.entries import Change, Entry
from kube_fairlead_apiserver.storage.snapshot import Snapshot
from kube_fairlead_apiserver.storage.table import undo
from kube_fairlead_apiserver.verbs import collection, presentation
from kube_fairlead_apiserver.verbs.call import Call
from kube_fairlead_apiserver.verbs.options import check_list_options
from kube_fairlead_apiserver.verbs.resource_versions import wait_for_version
from kube_fairlead_apiserver.verbs.selectors import read_selection

__all__ = ["Page", "gather", "list_objects", "read_page"]

# Undoing one change takes as long as processing this many bytes of a body.
_UNDONE_BYTES = 160
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "Start a new list without the continue parameter, or use the continue token in this response to get the rest "
    "as it is now: what was created, changed or deleted since the first page may then show up in the list."
)


class _Token(msgspec.Struct):
    """Where a page ended, and the revision of the list (-1: the current one)."""

    v: str
    rv: int
    start: str


async def list_objects(call: Call) -> Response:
    """Return the selected objects at one revision, in key order."""
    form = presentation.negotiate(call.request)
    page = await read_page(call)
    return await collection.answer(call, form, page.entries, page.meta, moment=page.revision)


class Page(msgspec.Struct):
    """The requested part of a collection. Without a limit the entries are read from their snapshot one by one.

    None among the entries is a point to yield to other requests.
    """

    entries: Iterable[Entry | None]
    meta: dict[str, object]
    revision: int


async def read_page(call: Call) -> Page:
    """Return the requested part of the collection, and the list's metadata."""
    query = call.request.query
    selection = await read_selection(call)
    check_list_options(query)
    limit = max(0, query.integer("limit") or 0)
    token = _read_token(query.get("continue"))
    if token is not None and query.get("resourceVersion"):
        raise errors.BadRequest("specifying resource version is not allowed when using continue")
    asked = await wait_for_version(call.core, query.get("resourceVersion"))
    table = call.core.store.table(call.resource.table)

    async def undo_in_turn(changes: list[Change], now: Snapshot) -> Snapshot:
        weigh(len(changes) * _UNDONE_BYTES)
        return await call.core.offload.run(undo, changes, now)

    snapshot = None
    while snapshot is None:
        revision = _moment(call, token, asked)  # raises when the history no longer has it
        snapshot = await table.snapshot_at(revision, undo_in_turn, user=call.user.name)
    shown = snapshot.scan(selection, after=token.start if token is not None else "")
    if not limit:
        return Page(shown, {"resourceVersion": str(revision)}, revision)
    # One more entry shows whether there is another page.
    entries = await gather(shown, limit + 1)
    meta: dict[str, object] = {"resourceVersion": str(revision)}
    if len(entries) > limit:
        entries.pop()
        last = entries[-1].key
        meta["continue"] = _write_token(revision, last)
        if selection.labels is None and selection.fields is None:
            meta["remainingItemCount"] = snapshot.count(selection.namespace, after=last)
    return Page(entries, meta, revision)


async def gather(entries: Iterable[Entry | None], most: int | None = None) -> list[Entry]:
    """Return the first entries, or all, yielding to other requests in between."""
    gathered: list[Entry] = []
    for entry in entries:
        if entry is None:
            await asyncio.sleep(0)
            continue
        gathered.append(entry)
        if len(gathered) == most:
            break
    return gathered


def _moment(call: Call, token: _Token | None, asked: int) -> int:
    """Return the revision of the list."""
    store = call.core.store
    forgotten = store.table(call.resource.table).forgotten
    if token is not None:
        if token.rv == -1:
            return store.revision
        if token.rv < forgotten or token.rv > store.revision:
            raise errors.Expired(_TOO_OLD, list_metadata={"continue": _write_token(-1, token.start)})
        return token.rv
    match = call.request.query.get("resourceVersionMatch")
    if match == "Exact":
        if asked < forgotten:
            raise errors.Expired("The resourceVersion for the provided list is too old.")
        return asked
    return store.revision


def _write_token(revision: int, start: str) -> str:
    raw = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, start))
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _read_token(text: str) -> _Token | None:
    if not text:
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise errors.BadRequest(f"invalid continue token: continue key is not valid: {error}") from error
    if token.v != "meta.k8s.io/v1" or token.rv < -1 or token.rv == 0:
        raise errors.BadRequest("invalid continue token: continue key is not valid: incorrect encoded version")
    return token
