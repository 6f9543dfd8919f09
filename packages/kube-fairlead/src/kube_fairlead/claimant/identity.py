"""Who holds a node's Lease: a name that outlives a restart of the claimant, and that no second one has.

A claimant that was killed must be able to go on at once, and not only when its Lease has expired. So its name is kept
in a file, and belongs to whichever process holds the lock beside it. A second claimant on the same machine waits for
that lock; one on another machine has another name, and waits for the Lease.
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
    """Wait until this process is the only one of its kind on this machine; the name that it then has.

    Args:
        folder: where the name is kept, in files that begin with `stem`.
        stem: what kind that is.
        name: what the name begins with.
        ids: for the rest of it.
        clock: to wait by.
    """
    lock = _try_lock(folder, stem)
    if lock is None:
        _log.warning("another one runs on this machine; standing by", name=name)
    while lock is None:
        await clock.sleep(_RETRY_SECONDS)
        lock = _try_lock(folder, stem)
    with lock:
        yield f"{name}_{_kept(folder / f'{stem}.id', ids)}"


def _try_lock(folder: Path, stem: str) -> files.FileLock | None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return files.FileLock(folder / f"{stem}.lock")
    except files.LockTaken:
        return None


def _kept(path: Path, ids: Ids) -> str:
    try:
        known = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        known = ""
    if not known:
        known = ids.uuid()
        files.write_atomically(path, f"{known}\n".encode("ascii"))
    return known
