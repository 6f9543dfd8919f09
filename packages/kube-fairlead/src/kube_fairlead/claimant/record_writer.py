"""Writing what a finished event came to into the record of its node. Any number of writers may do so at once."""

from __future__ import annotations

from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.lifecycle_v1alpha1 import NodeLifecycleRecord, RecordEntry
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.verbs import Api
from kube_fairlead.lifecycle import records

__all__ = ["RecordWriter"]

# Writers of one record are its node's claimant and the collector: more conflicts in a row than this are a mistake.
_TRIES: Final = 5


class RecordWriter:
    """Adds entries to records. Writing an entry again changes nothing, so a writer that was killed begins anew.

    Raises:
        Conflict: others wrote the record again and again meanwhile.
    """

    def __init__(self, client: Client) -> None:
        self._records: Api[NodeLifecycleRecord] = client.with_retry(retry.NEVER).of(NodeLifecycleRecord)

    async def write(self, node_name: str, entry: RecordEntry) -> None:
        """Make sure that the entry is in the node's record, or is older than all that the record has room for."""
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
                raise api_errors.Conflict(
                    str(error)
                ) from error  # it was collected meanwhile; the next try makes it anew
