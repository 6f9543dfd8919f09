"""The keys of one server on disk.

The code that creates and verifies them takes long to import, so it is imported only when there is something to create
or to verify. A record beside the keys says which files were verified, for which names, and until when that holds.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead_apiserver.security.pki.credentials import Credentials
from kube_fairlead_apiserver.security.pki.jose import TokenKey
from kube_fairlead_apiserver.security.private_files import read_private, write_private

if TYPE_CHECKING:
    from kube_fairlead_apiserver.security.pki.signing_key import SigningKey

__all__ = ["PKI", "Keyring", "make_meanwhile", "open_keyring", "serving_names"]

PKI = "pki"  # the folder of the keys, below a server's data folder

_RECORD = "checked.json"
_SIGNING_KEY = "service-account.key"
_FILES = ("ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "admin.crt", "admin.key", _SIGNING_KEY)


class Keyring(msgspec.Struct, frozen=True):
    """The paths of the server's keys, and the credentials of its administrator."""

    authority: Path
    certificate_pem: bytes  # the authority's certificate, by which clients verify the server
    certificate: Path
    key: Path
    administrator: Credentials
    signing_key: TokenKey


class _DeferredKey:
    """The key for tokens, read when the first token is issued or the public key is requested."""

    def __init__(self, pem: bytes) -> None:
        self._pem = pem

    @functools.cached_property
    def _key(self) -> SigningKey:
        from kube_fairlead_apiserver.security.pki.signing_key import SigningKey

        return SigningKey.read(self._pem)

    @property
    def algorithm(self) -> str:
        return self._key.algorithm

    @property
    def key_id(self) -> str:
        return self._key.key_id

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        return self._key.verifies(signature, message)

    def jwk(self) -> dict[str, Any]:
        return self._key.jwk()


class _Record(msgspec.Struct):
    digest: str
    good_from: dt.datetime
    good_until: dt.datetime


def open_keyring(folder: Path, names: Sequence[str], clock: Clock, randomness: Randomness) -> Keyring:
    """Open the keys of this folder for serving under these names; create those that are missing or due."""
    found = _read(folder)
    if not _is_checked(folder, found, names, clock.now()):
        found = _make_and_check(folder, names, clock, randomness)
    return Keyring(
        authority=folder / "ca.crt",
        certificate_pem=found["ca.crt"],
        certificate=folder / "apiserver.crt",
        key=folder / "apiserver.key",
        administrator=Credentials(found["admin.crt"], found["admin.key"]),
        signing_key=_DeferredKey(found[_SIGNING_KEY]),
    )


def make_meanwhile(
    data_folder: Path, names: Sequence[str], clock: Clock, randomness: Randomness
) -> Callable[[], object]:
    """Begin to make missing keys in a process of its own, so that the caller can load the rest of the program.

    Returns what waits for it. Whether that went well shows when the keyring is opened, which makes what is missing.
    """
    folder = data_folder / PKI
    if (folder / _RECORD).exists() or not hasattr(os, "fork") or threading.active_count() > 1:
        return lambda: None
    child = os.fork()
    if child:
        return lambda: os.waitpid(child, 0)
    try:
        data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        open_keyring(folder, names, clock, randomness)
    finally:
        os._exit(0)  # without output, and without the clean-up of the parent process


def serving_names(bind_address: str, others: Sequence[str] = ()) -> list[str]:
    """Return the names of a server: its address, this machine's name, and its service in the cluster."""
    names = ["127.0.0.1", "::1", "localhost", socket.gethostname()]
    if bind_address not in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not bound
        names.append(bind_address)
    names += ["10.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    return [*dict.fromkeys([*names, "kubernetes.default.svc.cluster.local", *others])]


def _read(folder: Path) -> dict[str, bytes]:
    contents = {name: read_private(folder / name) for name in _FILES}
    return {name: content for name, content in contents.items() if content is not None}


def _digest(found: Mapping[str, bytes], names: Sequence[str]) -> str:
    parts = [hashlib.sha256(found[name]).hexdigest() for name in _FILES]
    return hashlib.sha256("\n".join([*parts, *names]).encode()).hexdigest()


def _is_checked(folder: Path, found: Mapping[str, bytes], names: Sequence[str], now: dt.datetime) -> bool:
    content = read_private(folder / _RECORD)
    if content is None or len(found) < len(_FILES):
        return False
    try:
        record = msgspec.json.decode(content, type=_Record)
    except msgspec.DecodeError:
        return False
    return record.digest == _digest(found, names) and record.good_from <= now < record.good_until


def _make_and_check(folder: Path, names: Sequence[str], clock: Clock, randomness: Randomness) -> dict[str, bytes]:
    from kube_fairlead_apiserver.security.pki.authority import Authority
    from kube_fairlead_apiserver.security.pki.signing_key import SigningKey

    authority = Authority.open(folder, clock, randomness)
    SigningKey.open(folder / _SIGNING_KEY)
    authority.serving(names)
    admin = authority.client("kubernetes-admin", ["system:masters"], old=read_private(folder / "admin.crt"))
    # If a crash loses these files, the next start creates them again.
    write_private(folder / "admin.key", admin.key, durable=False)
    write_private(folder / "admin.crt", admin.certificate, durable=False)
    found = _read(folder)
    record = _Record(_digest(found, names), *authority.good_between([found["apiserver.crt"], found["admin.crt"]]))
    write_private(folder / _RECORD, msgspec.json.encode(record), durable=False)
    return found
