from __future__ import annotations

import datetime as dt
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509

from kube_fairlead.base.clock import RealClock, VirtualClock
from kube_fairlead.base.randomness import SeededRandomness, SystemRandomness
from kube_fairlead_apiserver.security.pki.credentials import PkiError
from kube_fairlead_apiserver.security.pki.keyring import PKI, Keyring, open_keyring, serving_names

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


MAKE_MEANWHILE = """
import pathlib, sys
from kube_fairlead_apiserver.security.pki.keyring import make_meanwhile
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.randomness import SystemRandomness
wait = make_meanwhile(pathlib.Path(sys.argv[1]), ["localhost"], RealClock(), SystemRandomness())
wait()
print("cryptography" in sys.modules)
"""


def make_meanwhile(folder: Path) -> str:
    """In a process of its own, because this one may have threads."""
    command = [sys.executable, "-c", MAKE_MEANWHILE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).strip()


def test_missing_keys_are_made_beside_the_caller(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert make_meanwhile(data) == "False"
    before = contents(data / PKI)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert make_meanwhile(data) == "False"
    open_keyring(data / PKI, ["localhost"], RealClock(), SystemRandomness())
    assert contents(data / PKI) == before


def test_keys_that_cannot_be_made_are_the_openers_to_report(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"no folder")
    assert make_meanwhile(data) == "False"
    with pytest.raises(NotADirectoryError):
        open_keyring(data / PKI, ["localhost"], RealClock(), SystemRandomness())


def test_names_are_those_of_the_machine_and_the_service() -> None:
    names = serving_names("192.0.2.7", ["api.example", "localhost"])
    assert names == [*dict.fromkeys(names)]
    assert {"127.0.0.1", "::1", "localhost", "192.0.2.7", "kubernetes.default.svc", "api.example"} <= set(names)
    assert "0.0.0.0" not in serving_names("0.0.0.0")


@pytest.mark.parametrize("days", [-400, 4000])
def test_what_is_not_valid_yet_or_any_more_is_made_anew(tmp_path: Path, days: int) -> None:
    wrong = keyring(tmp_path)
    right = keyring(tmp_path, days=days)
    now = START + dt.timedelta(days=days)
    for name in ("ca.crt", "apiserver.crt", "admin.crt"):
        certificate = x509.load_pem_x509_certificate((tmp_path / name).read_bytes())
        assert certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc
    assert right.administrator != wrong.administrator
    assert right.signing_key.key_id == wrong.signing_key.key_id, "tokens stay good"
    before = contents(tmp_path)
    keyring(tmp_path, days=days + 1)
    assert contents(tmp_path) == before
