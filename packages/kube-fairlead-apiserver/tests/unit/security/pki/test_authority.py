from __future__ import annotations

import datetime as dt
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead_apiserver.security.pki.authority import Authority
from kube_fairlead_apiserver.security.pki.credentials import PkiError
from kube_fairlead_apiserver.security.pki.keyring import open_keyring
from kube_fairlead_apiserver.security.pki.subjects import certificate_subject

NAMES = ["localhost", "127.0.0.1", "kubernetes.default.svc"]


FILES = ("ca.crt", "apiserver.crt", "admin.crt")


def authority(folder: Path, *, days: int = 0) -> Authority:
    clock = VirtualClock(dt.datetime.now(dt.UTC) + dt.timedelta(days=days))
    return Authority.open(folder, clock, SystemRandomness())


def subject_of(pem: bytes) -> tuple[str, tuple[str, ...], str]:
    return certificate_subject(ssl.PEM_cert_to_DER_cert(pem.decode()))


def test_files_are_private_and_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    first = authority(folder)
    certificate, key = first.serving(NAMES)
    for path in (folder / "ca.crt", folder / "ca.key", certificate, key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = {path: path.read_bytes() for path in folder.iterdir()}
    again = authority(folder)
    again.serving(NAMES)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert again.certificate_pem == first.certificate_pem == again.certificate_file.read_bytes()


def test_a_file_that_others_may_read_is_closed(tmp_path: Path) -> None:
    authority(tmp_path)
    (tmp_path / "ca.key").chmod(0o644)
    authority(tmp_path)
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600


def test_the_serving_certificate_follows_names_and_time(tmp_path: Path) -> None:
    certificate, _ = authority(tmp_path).serving(NAMES)
    first = certificate.read_bytes()
    extension = x509.load_pem_x509_certificate(first).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert [str(name) for name in extension.value.get_values_for_type(x509.DNSName)] == [NAMES[0], NAMES[2]]
    assert [str(name) for name in extension.value.get_values_for_type(x509.IPAddress)] == [NAMES[1]]
    authority(tmp_path).serving([*NAMES, NAMES[0]])
    assert certificate.read_bytes() == first
    authority(tmp_path).serving([*NAMES, "example.org"])
    second = certificate.read_bytes()
    assert second != first
    authority(tmp_path, days=340).serving([*NAMES, "example.org"])
    assert certificate.read_bytes() != second


def test_a_broken_serving_certificate_is_made_again(tmp_path: Path) -> None:
    certificate, key = authority(tmp_path).serving(NAMES)
    key.write_text("garbage")
    authority(tmp_path).serving(NAMES)
    assert b"PRIVATE KEY" in key.read_bytes()
    certificate.unlink()
    authority(tmp_path).serving(NAMES)
    assert certificate.exists()


def test_tls_trusts_what_it_signs(tmp_path: Path) -> None:
    ours = authority(tmp_path)
    certificate, key = ours.serving(NAMES)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    server.load_verify_locations(ours.certificate_file)
    server.verify_mode = ssl.CERT_REQUIRED
    credentials = ours.client("kubelet", ["system:nodes"])
    (tmp_path / "client.crt").write_bytes(credentials.certificate)
    (tmp_path / "client.key").write_bytes(credentials.key)
    client = ssl.create_default_context(cafile=str(ours.certificate_file))
    client.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for side in (one, other):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    assert len(done) == 2
    peer = other.getpeercert(binary_form=True)
    assert peer is not None
    assert certificate_subject(peer)[:2] == ("kubelet", ("system:nodes",))


def test_client_certificates_carry_user_and_groups(tmp_path: Path) -> None:
    credentials = authority(tmp_path).client("alice", ["devs", "ops"])
    name, groups, fingerprint = subject_of(credentials.certificate)
    assert (name, groups) == ("alice", ("devs", "ops"))
    assert len(fingerprint) == 64
    assert "PRIVATE" not in repr(credentials)


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_names_that_fit_no_certificate(tmp_path: Path, name: str) -> None:
    with pytest.raises(PkiError, match="cannot be in a certificate"):
        authority(tmp_path).client(name)
    with pytest.raises(PkiError, match="cannot be in a certificate"):
        authority(tmp_path).client("user", [name])


def test_half_an_authority_is_refused(tmp_path: Path) -> None:
    authority(tmp_path)
    key = (tmp_path / "ca.key").read_bytes()
    (tmp_path / "ca.key").unlink()
    with pytest.raises(PkiError, match=r"ca\.key is missing beside its other half"):
        authority(tmp_path)
    (tmp_path / "ca.key").write_bytes(key[:40])
    with pytest.raises(PkiError, match="cannot read the authority"):
        authority(tmp_path)
    authority(tmp_path / "other")
    (tmp_path / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(PkiError, match="is not the key of"):
        authority(tmp_path)


@pytest.mark.parametrize("days", [-400, 3660, 3300])
def test_an_authority_that_is_not_valid_yet_or_any_more_is_issued_anew_under_its_key(tmp_path: Path, days: int) -> None:
    """The clock was wrong once, or the server was off for years; or what it signs would end with it."""
    authority(tmp_path)
    before = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    issued = authority(tmp_path, days=0).client("jane")
    again = authority(tmp_path, days=days)
    after = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    assert after.public_key() == before.public_key()
    assert after.serial_number != before.serial_number
    assert after.not_valid_after_utc - after.not_valid_before_utc >= dt.timedelta(days=3650)
    now = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    assert after.not_valid_before_utc <= now < after.not_valid_after_utc
    x509.load_pem_x509_certificate(issued.certificate).verify_directly_issued_by(after)
    assert again.certificate_pem == (tmp_path / "ca.crt").read_bytes()


def test_an_authority_that_is_good_is_kept(tmp_path: Path) -> None:
    first = authority(tmp_path).certificate_pem
    assert authority(tmp_path, days=3000).certificate_pem == first


def keyring(folder: Path, days: int) -> list[x509.Certificate]:
    clock = VirtualClock(dt.datetime.now(dt.UTC) + dt.timedelta(days=days))
    open_keyring(folder, ["localhost"], clock, SystemRandomness())
    return [x509.load_pem_x509_certificate((folder / name).read_bytes()) for name in FILES]


@pytest.mark.parametrize("wrong", [-20_000, -7300, -400, 400, 7300, 20_000])
def test_a_clock_that_was_wrong_at_a_start_and_is_put_right_while_the_server_runs(tmp_path: Path, wrong: int) -> None:
    keyring(tmp_path, 0)
    now = dt.datetime.now(dt.UTC)
    for certificate in keyring(tmp_path, wrong):
        for time in (now, now + dt.timedelta(days=wrong)):
            assert certificate.not_valid_before_utc <= time < certificate.not_valid_after_utc
    assert keyring(tmp_path, 0) == keyring(tmp_path, 1)


@pytest.mark.parametrize("year", [1970, 2000, 2025])
def test_a_first_start_before_the_clock_is_set(tmp_path: Path, year: int) -> None:
    days = (dt.datetime(year, 1, 2, tzinfo=dt.UTC) - dt.datetime.now(dt.UTC)).days
    for certificate in keyring(tmp_path, days):
        assert certificate.not_valid_before_utc < dt.datetime(year, 1, 2, tzinfo=dt.UTC)
        assert certificate.not_valid_after_utc > dt.datetime.now(dt.UTC) + dt.timedelta(days=365)


@pytest.mark.parametrize("days", [340, 360])
def test_a_plain_renewal_is_not_backdated(tmp_path: Path, days: int) -> None:
    keyring(tmp_path, 0)
    _, *leaves = keyring(tmp_path, days)
    for certificate in leaves:
        lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert lasts <= dt.timedelta(days=366)
