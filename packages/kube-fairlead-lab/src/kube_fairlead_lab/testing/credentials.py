"""A certificate authority for one test control plane."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kube_fairlead.base.clock import Clock, RealClock

__all__ = ["CertificateAuthority"]

_VALID = timedelta(days=2)


class CertificateAuthority:
    """Signs serving certificates for loopback and client certificates for any user."""

    def __init__(
        self, certificate_file: Path, key: ec.EllipticCurvePrivateKey, *, folder: Path, clock: Clock | None = None
    ) -> None:
        self.certificate_file = certificate_file
        self._certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        self._key = key
        self._folder = folder
        self._clock = clock or RealClock()

    @classmethod
    def create(cls, folder: Path, *, clock: Clock | None = None) -> CertificateAuthority:
        """Create an authority in this folder."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairlead-test-ca")])
        now = (clock or RealClock()).now()
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _VALID)
            .not_valid_after(now + _VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        path = folder / "ca.crt"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return cls(path, key, folder=folder, clock=clock)

    @classmethod
    def load(cls, certificate_file: Path, key_file: Path, *, folder: Path) -> CertificateAuthority:
        """Load an existing authority; new certificates go to `folder`."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{key_file} must contain an elliptic curve key")
        return cls(certificate_file, key, folder=folder)

    def serving(self, name: str, *addresses: str) -> tuple[Path, Path]:
        """Certificate and key of a server on loopback, and at these addresses."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        known = [x509.IPAddress(ipaddress.IPv4Address(address)) for address in ("127.0.0.1", *addresses)]
        names = x509.SubjectAlternativeName([*known, x509.DNSName("localhost")])
        return self._issue(name, subject, names, ExtendedKeyUsageOID.SERVER_AUTH)

    def client(self, user: str, groups: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key of a user: CN is the name, each O a group."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        digest = hashlib.sha256("\0".join([user, *groups]).encode()).hexdigest()[:16]
        return self._issue(f"client-{digest}", subject, None, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self,
        stem: str,
        subject: x509.Name,
        names: x509.SubjectAlternativeName | None,
        usage: x509.ObjectIdentifier,
    ) -> tuple[Path, Path]:
        certificate_file, key_file = self._folder / f"{stem}.crt", self._folder / f"{stem}.key"
        if certificate_file.exists():
            return certificate_file, key_file
        key = ec.generate_private_key(ec.SECP256R1())
        now = self._clock.now()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _VALID)
            .not_valid_after(now + _VALID)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        key_file.touch(mode=0o600)
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return certificate_file, key_file
