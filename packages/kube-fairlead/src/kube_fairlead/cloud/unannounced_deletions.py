"""Recent deletions of nodes that were not announced, stored where the next leader reads them.

How many may vanish within five minutes would be no limit if every term counted from zero. So it is kept in a ConfigMap
beside the Lease: a key per node, its uid, with the time and the node's name.

Invariants:
1. A node is written down before it is deleted. A crash in between counts one too many, never one too few.
2. What cannot be read or written is an error, and then no unannounced node is deleted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import ConfigMap, Node
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.time import format_time, parse_time
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import MergePatch

__all__ = ["UnannouncedDeletions", "record_name"]

# What vanishes within so long of each other vanishes at once.
_AT_ONCE: Final = dt.timedelta(minutes=5)


def record_name(lease: str) -> str:
    """The ConfigMap beside a Lease."""
    return f"{lease}-vanished"


class UnannouncedDeletions:
    """The stored deletions, as one leader knows them: read once, then only added to, for it is the only writer."""

    def __init__(self, client: Client, *, namespace: str, name: str) -> None:
        self._api = client.of(ConfigMap)
        self._namespace = namespace
        self._name = name
        self._known: dict[str, dt.datetime] | None = None

    async def recent(self, now: dt.datetime) -> set[str]:
        """The uids of nodes that were deleted within the last five minutes.

        Raises:
            ApiError: the API server refused.
            ClientError: it did not answer.
        """
        return set(_recent(await self._read(now), now))

    async def add(self, nodes: Iterable[Node], now: dt.datetime) -> None:
        """Write down that these are about to be deleted.

        Raises:
            ApiError: the API server refused.
            ClientError: it did not answer.
        """
        known = await self._read(now)
        kept = _recent(known, now)
        new = {node.uid: f"{format_time(now)} {node.name}" for node in nodes}
        patch = MergePatch({"data": {**dict.fromkeys(known.keys() - kept.keys()), **new}})
        try:
            await self._api.patch(self._name, patch, namespace=self._namespace)
        except api_errors.NotFound:
            metadata = ObjectMeta(name=self._name, namespace=self._namespace)
            await self._api.create(ConfigMap(metadata=metadata, data=new))
        self._known = kept | dict.fromkeys(new, now)

    async def _read(self, now: dt.datetime) -> dict[str, dt.datetime]:
        if self._known is None:
            try:
                record = await self._api.get(self._name, namespace=self._namespace)
            except api_errors.NotFound:
                self._known = {}
            else:
                self._known = {uid: _moment(text, now) for uid, text in record.data.items()}
        return self._known


def _recent(known: Mapping[str, dt.datetime], now: dt.datetime) -> dict[str, dt.datetime]:
    # A clock that was wrong once must not count for ever: what is far ahead of us does not either.
    return {uid: when for uid, when in known.items() if abs(now - when) <= _AT_ONCE}


def _moment(text: str, now: dt.datetime) -> dt.datetime:
    try:
        return parse_time(text.partition(" ")[0])
    except ValueError:
        return now  # not a time: better one too many
