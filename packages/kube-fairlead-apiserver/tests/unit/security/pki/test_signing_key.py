from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from kube_fairlead_apiserver.security.pki.credentials import PkiError
from kube_fairlead_apiserver.security.pki.jose import base64url, from_base64url
from kube_fairlead_apiserver.security.pki.signing_key import SigningKey


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def test_the_key_outlives_restarts(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    first = SigningKey.open(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = SigningKey.open(path)
    assert again.key_id == first.key_id
    assert again.verifies(first.sign(b"message"), b"message")
    assert not again.verifies(first.sign(b"message"), b"another")
    assert not again.verifies(b"short", b"message")
    assert first.algorithm == "ES256"
    assert len(first.sign(b"message")) == 64


def test_an_rsa_key_signs_too(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    path.write_bytes(pem(rsa.generate_private_key(65537, 2048)))
    key = SigningKey.open(path)
    assert key.algorithm == "RS256"
    assert key.verifies(key.sign(b"message"), b"message")
    assert not key.verifies(key.sign(b"message")[:-1], b"message")
    jwk = key.jwk()
    assert (jwk["kty"], jwk["alg"], jwk["use"], jwk["e"]) == ("RSA", "RS256", "sig", "AQAB")


def test_jwk(tmp_path: Path) -> None:
    key = SigningKey.open(tmp_path / "sa.key")
    jwk = key.jwk()
    assert (jwk["kty"], jwk["crv"], jwk["kid"], jwk["alg"]) == ("EC", "P-256", key.key_id, "ES256")
    assert len(from_base64url(jwk["x"])) == len(from_base64url(jwk["y"])) == 32


@pytest.mark.parametrize("content", [b"garbage", pem(ed25519.Ed25519PrivateKey.generate())])
def test_other_keys_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "sa.key"
    path.write_bytes(content)
    with pytest.raises(PkiError):
        SigningKey.open(path)


def test_base64url() -> None:
    assert from_base64url(base64url(b"\xff\xfe\x00")) == b"\xff\xfe\x00"
    for broken in ("a=", "é", "a b", "++"):
        with pytest.raises(ValueError, match=r"base64|only|padding|character"):
            from_base64url(broken)
