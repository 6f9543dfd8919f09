"""A certificate for a component that was given none, made by a short-lived child process.

The library that makes certificates costs 13 MB, which a process on every node would keep for a thing it does once. Run
as a program (`python -m kube_fairlead.base.selfsigned NAME...`) this prints a certificate, its authority's and its key.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kube_fairlead.base import certificates, files
from kube_fairlead.base.certificates import LibraryMissing, Pair
from kube_fairlead.base.clock import RealClock

__all__ = ["in_folder", "load", "make"]

_LIFETIME: Final = dt.timedelta(days=365)
_KEY: Final = b"-----BEGIN PRIVATE KEY-----"
_NO_LIBRARY: Final = 3


async def make(names: Sequence[str]) -> Pair:
    """A certificate for these DNS names and addresses.

    Raises:
        LibraryMissing: `cryptography` is not installed.
        RuntimeError: the child failed.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # any user may write to the present folder: nothing is imported from there
        "-m",
        __name__,
        *names,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        printed, trouble = await child.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        raise
    if child.returncode == _NO_LIBRARY:
        raise LibraryMissing
    certificate, key, rest = printed.partition(_KEY)
    if child.returncode or not key:
        raise RuntimeError(f"no certificate could be made: {trouble.decode(errors='replace').strip()[-500:]}")
    return Pair(certificate, key + rest)


async def in_folder(folder: Path, stem: str, names: Sequence[str]) -> Pair:
    """The certificate `<stem>.crt` with its key `<stem>.key` in a folder; made, if they are missing or old."""
    certificate, key = folder / f"{stem}.crt", folder / f"{stem}.key"
    with contextlib.suppress(FileNotFoundError):
        if RealClock().now().timestamp() - certificate.stat().st_mtime < _LIFETIME.total_seconds() * 2 / 3:
            kept = Pair(certificate.read_bytes(), key.read_bytes())
            if _is_usable(kept):  # a crash of the machine may have left them empty
                return kept
    made = await make(names)
    files.write_atomically(key, made.key, durable=False)
    files.write_atomically(certificate, made.certificate, durable=False)
    return made


def _is_usable(pair: Pair) -> bool:
    try:
        load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair)
    except (ssl.SSLError, OSError):
        return False
    return True


def load(context: ssl.SSLContext, pair: Pair) -> None:
    """Serve with a certificate that is in no file. The library for TLS reads files only."""
    with files.as_file(pair.certificate + pair.key) as path:
        context.load_cert_chain(path)


def _main(names: Sequence[str]) -> int:
    now = RealClock().now().replace(microsecond=0)
    try:
        authority = certificates.make_authority("fairlead-self-signed-ca", now=now, lifetime=_LIFETIME)
    except LibraryMissing as error:
        sys.stderr.write(f"{error}\n")
        return _NO_LIBRARY
    made = certificates.make_serving(authority, names, now=now, lifetime=_LIFETIME)
    sys.stdout.buffer.write(made.certificate + authority.certificate + made.key)
    return 0


if __name__ == "__main__":
    raise SystemExit(_main(sys.argv[1:]))
