"""Write the result of a finished event into the record of its node. Several writers may do so at once."""

from __future__ import annotations

from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.lifecycle_v1alpha1 import NodeLifecycleRecord, RecordEntry
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.verbs import Api
from kube_fairlead.lifecycle import records

__all__ = ["RecordWriter"]

# Only the node's claimant and the garbage collector write one record, so more conflicts in a row indicate a bug.
_TRIES: Final = 5


class RecordWriter:
    """Adds entries to records. Writing an entry again changes nothing, so a restarted writer repeats it.

    Raises:
        Conflict: other writers changed the record in every attempt.
    """

    def __init__(self, client: Client) -> None:
        self._records: Api[NodeLifecycleRecord] = client.with_retry(retry.NEVER).of(NodeLifecycleRecord)

    async def write(self, node_name: str, entry: RecordEntry) -> None:
        """Add the entry to the node's record, unless it is present or older than all that fit."""
        for _ in range(_TRIES - 1):
            try:
                await self._write_once(node_name, entry)
            except (api_errors.AlreadyExists, api_errors.Conflict):
                continue  # another writer was there first
            return
        await self._write_once(node_name, entry)

    async def _write_once(self, node_name: str, entry: RecordEntry) -> None:
        try:
            current = await self._records.get(node_name)
        except api_errors.NotFound:
            await self._records.create(records.new_record(node_name, entry))
            return
        changed = records.with_entry(current, entry)
        if changed is not None:
            try:
                await self._records.update(changed)
            except api_errors.NotFound as error:
                # The record was deleted meanwhile; the next attempt creates it.
                raise api_errors.Conflict(str(error)) from error
