"""The record of a node: one entry for each finished event. Pure.

Guarantees for each record that this module returns:
1. An event has at most one entry, by its uid. Adding it again changes nothing.
2. Entries are sorted by the time of completion, newest first, and within one second by the resourceVersion of the
   finished event, so that two writers agree on the order. Times in the API are whole seconds, and a node carries out
   one event at a time, so the terminal status of the later event has the higher resourceVersion.
3. A record holds at most `ENTRIES_MAX` entries and `BYTES_MAX` bytes. The pods of old
   entries are dropped first, then old entries. The newest entry always stays.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LifecycleEvent,
    NodeLifecycleRecord,
    RecordEntry,
    Requester,
    RequesterSource,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.recordrules import ENTRIES_MAX, MESSAGE_MAX_LENGTH
from kube_fairlead.api.reserved import ANNOTATION_REQUESTED_BY
from kube_fairlead.lifecycle import deadlines

__all__ = [
    "BYTES_MAX",
    "RecordRetention",
    "entry_of",
    "may_release_without_record",
    "new_record",
    "newest_first",
    "overflow",
    "pruned",
    "requester_of",
    "with_entry",
]

BYTES_MAX: Final = 128 * 1024
"""A twelfth of what etcd accepts for one object by default."""

# How long the claimant keeps an event whose record the API server rejects: an administrator may be about to install the
# kind or to grant the rights. Without a limit, users could not delete the event, and no later event would be claimed.
_RECORD_WAIT: Final = dt.timedelta(seconds=30)

_LONG_AGO: Final = dt.datetime.min.replace(tzinfo=dt.UTC)
_REQUESTER_MAX_LENGTH: Final = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecordRetention:
    """How long entries are retained, and how many records of nodes that no longer exist."""

    entries: dt.timedelta = dt.timedelta(days=30)
    gone_nodes: int = 1000


def requester_of(event: LifecycleEvent) -> Requester | None:
    """Return who requested an event; None when it is unknown.

    The annotation that admission writes names the user. Without it, the field manager that created the event is
    returned, a name that the client chose itself.
    """
    if user := event.metadata.annotations.get(ANNOTATION_REQUESTED_BY, ""):
        return Requester(name=user[:_REQUESTER_MAX_LENGTH], source=RequesterSource.ADMISSION)
    fields: list[dict[str, Any]] = wire.to_dict(event).get("metadata", {}).get("managedFields") or []
    for one in fields:
        # The spec never changes, so its manager is the one that created the event.
        spec = (one.get("fieldsV1") or {}).get("f:spec")
        if spec and one.get("manager") and not one.get("subresource"):
            return Requester(name=str(one["manager"])[:_REQUESTER_MAX_LENGTH], source=RequesterSource.FIELD_MANAGER)
    return None


def entry_of(event: LifecycleEvent) -> RecordEntry:
    """Return the entry of a finished event. The same event always gives the same entry."""
    status, frozen = event.status, event.status.transition
    version = event.metadata.resource_version
    return RecordEntry(
        event_uid=event.uid,
        event_name=event.name,
        transition_name=event.spec.transition_name,
        start=frozen.start if frozen is not None else "",
        end=frozen.end if frozen is not None else "",
        node_uid=status.node_uid,
        driver=status.driver,
        claimed_by=status.claimed_by,
        requested_by=requester_of(event),
        request_time=event.metadata.creation_timestamp,
        claim_time=status.claim_time,
        start_time=status.start_time,
        completion_time=status.completion_time or event.metadata.creation_timestamp,
        sequence=int(version) if version.isdecimal() else 0,
        result=status.claim_status,
        message=_shortened(status.message),
        progress=status.progress,
        pods=status.pods,
    )


def newest_first(entries: Iterable[RecordEntry]) -> list[RecordEntry]:
    """Sort entries by their completion, the newest first."""
    return sorted(entries, key=_order, reverse=True)


def new_record(node_name: str, entry: RecordEntry) -> NodeLifecycleRecord:
    """Create the record of a node with its first entry."""
    return NodeLifecycleRecord(metadata=ObjectMeta(name=node_name), entries=_bounded((entry,)))


def with_entry(record: NodeLifecycleRecord, entry: RecordEntry) -> NodeLifecycleRecord | None:
    """Add an entry; None when that changes nothing: it is present already, or older than all that fit."""
    if any(one.event_uid == entry.event_uid for one in record.entries):
        return None
    entries = _bounded((*record.entries, entry))
    if entries == record.entries:
        return None
    dropped = record.dropped_entries + len(record.entries) + 1 - len(entries)
    return wire.replace(record, entries=entries, dropped_entries=dropped)


def pruned(record: NodeLifecycleRecord, keep: dt.timedelta, now: dt.datetime) -> NodeLifecycleRecord | dt.datetime:
    """Drop expired entries; when none is expired, return the moment at which the next one is.

    The caller deletes a record without entries.
    """
    ends = [(deadlines.deadline_after(one.completion_time or _LONG_AGO, keep), one) for one in record.entries]
    left = tuple(one for end, one in ends if now < end)
    if len(left) == len(record.entries) and left:
        return min(end for end, _ in ends)
    dropped = record.dropped_entries + len(record.entries) - len(left)
    return wire.replace(record, entries=left, dropped_entries=dropped)


def overflow(records: Iterable[NodeLifecycleRecord], nodes: Mapping[str, Any], most: int) -> list[NodeLifecycleRecord]:
    """Return the records of deleted nodes that exceed the limit, the oldest first."""
    gone = [record for record in records if record.name not in nodes]
    gone.sort(key=lambda record: (_newest(record), record.name))
    return gone[: max(0, len(gone) - most)]


def may_release_without_record(event: LifecycleEvent, code: int, now: dt.datetime, *, urgent: bool = False) -> bool:
    """Whether to remove an event's finalizer although the API server rejected its record with this status code.

    A temporary error, such as a conflict or an overloaded server, is retried without limit. `urgent`: the node shuts
    down and cannot wait.
    """
    if not 400 <= code < 500 or code in {409, 429}:
        return False
    if urgent:
        return True
    since = event.status.completion_time or event.metadata.creation_timestamp or _LONG_AGO
    return now >= deadlines.deadline_after(since, _RECORD_WAIT)


def _newest(record: NodeLifecycleRecord) -> dt.datetime:
    return max((one.completion_time or _LONG_AGO for one in record.entries), default=_LONG_AGO)


def _order(entry: RecordEntry) -> tuple[dt.datetime, int, dt.datetime, str]:
    # An entry of a version that did not write the sequence is older than every entry that has one.
    started = entry.claim_time or entry.request_time or _LONG_AGO
    return entry.completion_time or _LONG_AGO, entry.sequence, started, entry.event_uid


def _bounded(entries: Iterable[RecordEntry]) -> tuple[RecordEntry, ...]:
    kept = newest_first(entries)[:ENTRIES_MAX]
    sizes = [_size(one) for one in kept]
    for index in range(len(kept) - 1, 0, -1):
        if sum(sizes) <= BYTES_MAX:
            break
        kept[index] = _without_pods(kept[index])
        sizes[index] = _size(kept[index])
    while len(kept) > 1 and sum(sizes) > BYTES_MAX:
        kept.pop()
        sizes.pop()
    if sum(sizes) > BYTES_MAX:
        kept[0] = _without_pods(kept[0])
    return tuple(kept)


def _without_pods(entry: RecordEntry) -> RecordEntry:
    return wire.replace(entry, pods=(), pods_omitted=entry.pods_omitted + len(entry.pods)) if entry.pods else entry


def _size(entry: RecordEntry) -> int:
    return len(msgspec.json.encode(entry)) + 1


def _shortened(message: str) -> str:
    return message if len(message) <= MESSAGE_MAX_LENGTH else message[: MESSAGE_MAX_LENGTH - 3] + "..."
