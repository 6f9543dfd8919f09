from __future__ import annotations

import datetime as dt
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlead.apiserver.security.pki.credentials import PkiError
from fairlead.apiserver.security.pki.keyring import Keyring, open_keyring
from fairlead.base.clock import VirtualClock
from fairlead.base.randomness import SeededRandomness

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NAMES = ("127.0.0.1", "localhost")


def keyring(folder: Path, names: Sequence[str] = NAMES, *, days: int = 0) -> Keyring:
    clock = VirtualClock(START + dt.timedelta(days=days))
    return open_keyring(folder, names, clock, SeededRandomness(1))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    made = keyring(folder)
    before = contents(folder)
    again = keyring(folder)
    assert contents(folder) == before
    assert again.administrator == made.administrator
    assert again.certificate_pem == made.certificate_pem == before["ca.crt"]
    assert again.signing_key.key_id == made.signing_key.key_id
    assert again.signing_key.verifies(made.signing_key.sign(b"token"), b"token")
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("change", ["names", "time", "record", "serving"])
def test_what_is_due_is_made_anew_and_the_rest_kept(tmp_path: Path, change: str) -> None:
    keyring(tmp_path)
    before = contents(tmp_path)
    if change == "record":
        (tmp_path / "checked.json").write_bytes(b"not JSON")
    if change == "serving":
        (tmp_path / "apiserver.key").write_bytes(before["ca.key"])
    keyring(tmp_path, (*NAMES, "other") if change == "names" else NAMES, days=340 if change == "time" else 0)
    after = contents(tmp_path)
    kept = {name for name in before if before[name] == after[name]}
    assert {"ca.crt", "ca.key", "service-account.key"} <= kept
    assert ("apiserver.crt" in kept) is (change == "record")


def test_a_key_that_is_not_the_authoritys_is_refused(tmp_path: Path) -> None:
    keyring(tmp_path)
    (tmp_path / "ca.key").write_bytes((tmp_path / "admin.key").read_bytes())
    with pytest.raises(PkiError, match="is not the key of"):
        keyring(tmp_path)


def test_what_makes_keys_is_not_loaded_for_keys_that_are_there(tmp_path: Path) -> None:
    """It would take longer than the rest of what a start needs of the PKI, and stay in memory."""
    script = f"""
import sys, pathlib
from fairlead.apiserver import launch
from fairlead.apiserver.security.pki.keyring import open_keyring
from fairlead.base.clock import RealClock
from fairlead.base.randomness import SystemRandomness
open_keyring(pathlib.Path({str(tmp_path)!r}), ["localhost"], RealClock(), SystemRandomness())
print("cryptography" in sys.modules)
"""
    said = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["True", "False"]
