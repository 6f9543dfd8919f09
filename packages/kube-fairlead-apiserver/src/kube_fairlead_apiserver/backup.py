"""Backup and restore of a server: its objects and its keys, in one file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.files import write_atomically
from kube_fairlead_apiserver.launch import DATABASE
from kube_fairlead_apiserver.security.pki.keyring import PKI
from kube_fairlead_apiserver.storage.copies import copy_database, read_enclosed
from kube_fairlead_apiserver.storage.database import lock_database
from kube_fairlead_apiserver.storage.interface import CorruptLog, ForeignDatabase, StorageError
from kube_fairlead_apiserver.storage.wal import wal_path

__all__ = ["back_up", "restore"]


def back_up(folder: Path, file: Path) -> None:
    """Copy the data folder of a server, running or not, into a file that only its owner can read."""
    source = folder / DATABASE
    if not source.exists():
        raise StorageError(f"{source} does not exist; name the server's --data-dir before `backup`")
    if not file.absolute().parent.is_dir():
        raise StorageError(f"{file} cannot be written: there is no folder {file.absolute().parent}")
    pki = folder / PKI
    keys = sorted(path for path in pki.iterdir() if path.is_file()) if pki.is_dir() else []
    copy_database(source, file, {path.name: path.read_bytes() for path in keys})


def restore(file: Path, folder: Path, clock: Clock) -> bool:
    """Restore a copy into a folder without data; returns whether its keys exist as well.

    A folder that has keys keeps them, because its clients know them. Clients may also know revisions that the copy does
    not have, so the revisions continue far above them.
    """
    target = folder / DATABASE
    # A leftover write-ahead log would be read as a part of the restored database.
    for taken in (target, wal_path(target)):
        if taken.exists():
            raise StorageError(
                f"{taken} exists, and a restore never overwrites data: stop the server, "
                "move the file aside (with its -wal, -shm and -acknowledged files), then try again"
            )
    with _named(file):
        keys = read_enclosed(file)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A server that runs on this folder holds the lock, even if its file was moved away.
    with lock_database(target):
        if (folder / PKI).exists():
            keys = {}
        if keys:
            (folder / PKI).mkdir(mode=0o700)
        for name, content in keys.items():
            write_atomically(folder / PKI / Path(name).name, content)
        with _named(file):
            copy_database(file, target, revisions_after=int(clock.now().timestamp() * 1000))
    return bool(keys)


@contextlib.contextmanager
def _named(file: Path) -> Iterator[None]:
    """Replace the storage's error about a database by one about the backup file."""
    try:
        yield
    except (CorruptLog, ForeignDatabase) as error:
        raise StorageError(
            f"{file} is no backup, or a damaged one; nothing was restored. Name a file that"
            " `fairlead apiserver backup FILE` wrote"
        ) from error
