from __future__ import annotations

import json
import ssl
import stat
from base64 import b64decode
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from kube_fairlead_lab.testing.control_plane import Access, write_kubeconfig
from kube_fairlead_lab.testing.credentials import CertificateAuthority


def test_a_client_certificate_names_user_and_groups(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path / "pki")
    certificate_file, key_file = authority.client("alice", ["testers", "builders"])
    subject = x509.load_pem_x509_certificate(certificate_file.read_bytes()).subject
    assert [entry.value for entry in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    groups = [entry.value for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    assert groups == ["testers", "builders"]
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600


def test_the_same_user_gets_the_same_certificate(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path / "pki")
    assert authority.client("alice", ["a"]) == authority.client("alice", ["a"])
    assert authority.client("alice", ["a"]) != authority.client("alice", ["b"])


def test_client_and_server_trust_each_other(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path / "pki")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.serving("server"))
    server.load_verify_locations(authority.certificate_file)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(authority.certificate_file))
    client.load_cert_chain(*authority.client("alice", []))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    while here.version() is None or there.getpeercert() is None:
        for side in (here, there):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    seen = there.getpeercert()
    assert seen is not None
    assert seen["subject"] == ((("commonName", "alice"),),)


def test_a_kubeconfig_holds_everything(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path / "pki")
    certificate, key = authority.client("alice", [])
    access = Access(
        url="https://127.0.0.1:1",
        ca_file=authority.certificate_file,
        user="alice",
        certificate_file=certificate,
        key_file=key,
    )
    path = write_kubeconfig(tmp_path / "config", access)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    user = document["users"][0]["user"]
    assert b64decode(user["client-certificate-data"]) == certificate.read_bytes()
    assert b64decode(user["client-key-data"]) == key.read_bytes()
    assert "token" not in user
