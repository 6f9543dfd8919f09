"""The holder identity of a claimant: it survives a restart, and no other process has it.

A restarted claimant must resume at once, without waiting until its own Lease expires. The identity is therefore stored
in a file, and belongs to the process that holds the lock beside it. A second claimant on the same machine waits for
that lock; one on another machine has another identity, and waits for the Lease.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from kube_fairlead.base import files, logs
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import Ids

__all__ = ["held_identity"]

_RETRY_SECONDS = 1.0

_log = logs.get_logger(__name__)


@contextlib.asynccontextmanager
async def held_identity(folder: Path, stem: str, name: str, *, ids: Ids, clock: Clock) -> AsyncIterator[str]:
    """Wait for the lock of the identity, and hold it for the time of the block. Yields the identity.

    Args:
        folder: the folder of the identity's files.
        stem: the prefix of their names.
        name: the prefix of the identity.
        ids: creates the rest of the identity.
        clock: for the wait.
    """
    lock = _try_lock(folder, stem)
    if lock is None:
        _log.warning("another process has this identity; waiting for its lock", name=name)
    while lock is None:
        await clock.sleep(_RETRY_SECONDS)
        lock = _try_lock(folder, stem)
    with lock:
        yield f"{name}_{_stored_id(folder / f'{stem}.id', ids)}"


def _try_lock(folder: Path, stem: str) -> files.FileLock | None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return files.FileLock(folder / f"{stem}.lock")
    except files.LockTaken:
        return None


def _stored_id(path: Path, ids: Ids) -> str:
    try:
        known = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        known = ""
    if not known:
        known = ids.uuid()
        files.write_atomically(path, f"{known}\n".encode("ascii"))
    return known
