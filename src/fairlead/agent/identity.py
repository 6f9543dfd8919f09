"""Who holds the node's Lease: a name that outlives a restart of the agent, and that no second agent has.

An agent that was killed must be able to go on at once, and not only when its Lease has expired. So its name is kept in
a file, and belongs to whichever process holds the lock beside it. A second agent on the same machine waits for that
lock; one on another machine has another name, and waits for the Lease.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from fairlead.base import files, logs
from fairlead.base.clock import Clock
from fairlead.base.identity import Ids

__all__ = ["held_identity"]

_RETRY_SECONDS = 1.0

_log = logs.get_logger(__name__)


@contextlib.asynccontextmanager
async def held_identity(folder: Path, node_name: str, *, ids: Ids, clock: Clock) -> AsyncIterator[str]:
    """Wait until this process is the only agent for the node on this machine; the name that it then has."""
    lock = _try_lock(folder, node_name)
    if lock is None:
        _log.warning("another agent runs for this node on this machine; standing by", node=node_name)
    while lock is None:
        await clock.sleep(_RETRY_SECONDS)
        lock = _try_lock(folder, node_name)
    with lock:
        yield _identity(folder, node_name, ids)


def _try_lock(folder: Path, node_name: str) -> files.FileLock | None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return files.FileLock(folder / f"agent-{node_name}.lock")
    except files.LockTaken:
        return None


def _identity(folder: Path, node_name: str, ids: Ids) -> str:
    path = folder / f"agent-{node_name}.id"
    try:
        known = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        known = ""
    if not known:
        known = ids.uuid()
        files.write_atomically(path, f"{known}\n".encode("ascii"))
    return f"{node_name}_{known}"
