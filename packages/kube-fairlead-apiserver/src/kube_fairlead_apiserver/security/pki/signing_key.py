"""The key that signs service account tokens, for JOSE: ES256, or RS256 if the folder has an RSA key.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/serviceaccount/jwt.go
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from kube_fairlead_apiserver.security.pki.credentials import PkiError
from kube_fairlead_apiserver.security.pki.jose import base64url
from kube_fairlead_apiserver.security.private_files import read_private, write_private

__all__ = ["SigningKey"]

_COORDINATE_BYTES = 32


class SigningKey:
    """Signs tokens and verifies its own signatures. `key_id` identifies the key, derived as in Kubernetes."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        self._key = key
        self.algorithm = "ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256"
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.key_id = base64url(hashlib.sha256(public).digest())

    @classmethod
    def read(cls, pem: bytes) -> SigningKey:
        """Read a key that was verified before."""
        found = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(found, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise PkiError("a key for service account tokens must be a P-256 or an RSA key")
        return cls(found)

    @classmethod
    def open(cls, path: Path) -> SigningKey:
        """Read the key of this file, or create it. It persists over restarts, so that tokens stay valid."""
        pem = read_private(path)
        if pem is None:
            key = ec.generate_private_key(ec.SECP256R1())
            write_private(
                path,
                key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                ),
            )
            return cls(key)
        try:
            found = serialization.load_pem_private_key(pem, password=None)
        except ValueError as error:
            raise PkiError(f"cannot read {path}: {error}; restore it, or remove it to make all tokens void") from error
        if isinstance(found, ec.EllipticCurvePrivateKey) and isinstance(found.curve, ec.SECP256R1):
            return cls(found)
        if isinstance(found, rsa.RSAPrivateKey):
            return cls(found)
        raise PkiError(f"{path} must hold a P-256 or an RSA key")

    def sign(self, message: bytes) -> bytes:
        """Return the signature in JOSE's form."""
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        r, s = utils.decode_dss_signature(self._key.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether the signature is this key's."""
        try:
            if isinstance(self._key, rsa.RSAPrivateKey):
                self._key.public_key().verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
                return True
            if len(signature) != 2 * _COORDINATE_BYTES:
                return False
            r, s = (int.from_bytes(half, "big") for half in (signature[:_COORDINATE_BYTES], signature[32:]))
            encoded = utils.encode_dss_signature(r, s)
            self._key.public_key().verify(encoded, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True

    def jwk(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key."""
        common = {"use": "sig", "kid": self.key_id, "alg": self.algorithm}
        if isinstance(self._key, rsa.RSAPrivateKey):
            public = self._key.public_key().public_numbers()
            return {"kty": "RSA", "n": _number(public.n), "e": _number(public.e)} | common
        point = self._key.public_key().public_numbers()
        x, y = (base64url(value.to_bytes(_COORDINATE_BYTES, "big")) for value in (point.x, point.y))
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y} | common


def _number(value: int) -> str:
    return base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))
