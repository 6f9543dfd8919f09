"""Making certificates for what this process serves, and looking into them.

The library for it (`cryptography`) is loaded when a certificate is made or looked into, and by nothing else here: a
component whose certificates come from files never loads it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

__all__ = [
    "BACKDATE",
    "Facts",
    "LibraryMissing",
    "Pair",
    "Validity",
    "as_written",
    "inspect",
    "make_authority",
    "make_serving",
    "validities",
]

BACKDATE: Final = dt.timedelta(hours=1)
"""How long before now a certificate begins to be valid: clients' clocks may be slow."""


class LibraryMissing(Exception):
    """Raised when a certificate is to be made and `cryptography` is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "making a certificate needs the Python package cryptography (pip install 'kube-fairlead[certs]')"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What a certificate says."""

    made_at: dt.datetime
    until: dt.datetime
    names: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Validity:
    """When a certificate is valid."""

    since: dt.datetime
    until: dt.datetime


def validities(pem: bytes) -> tuple[Validity, ...]:
    """When each certificate of a PEM bundle is valid.

    Raises:
        LibraryMissing: `cryptography` is not installed.
        ValueError: it holds no certificates.
    """
    _load()
    from cryptography import x509

    found = x509.load_pem_x509_certificates(pem)
    return tuple(Validity(one.not_valid_before_utc, one.not_valid_after_utc) for one in found)


def make_authority(name: str, *, now: dt.datetime, lifetime: dt.timedelta) -> Pair:
    """A certificate that signs others and itself."""
    _load()
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    built = _begun(subject, subject, key, now, now + lifetime, is_authority=True).add_extension(identifier, False)
    return _signed(built, key, key)


def as_written(names: Sequence[str]) -> frozenset[str]:
    """DNS names and addresses as a certificate shows them."""
    return frozenset(_canonical(name) for name in names)


def _canonical(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def make_serving(authority: Pair, names: Sequence[str], *, now: dt.datetime, lifetime: dt.timedelta) -> Pair:
    """A certificate for serving under these DNS names and addresses."""
    _load()
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    signer = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not one of an elliptic curve")
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + lifetime, issuer.not_valid_after_utc)
    built = (
        _begun(_named(names[0][:64]), issuer.subject, key, now, until, is_authority=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), False)
    )
    return _signed(built, key, signer)


def inspect(pair: Pair, authority: Pair | None = None) -> Facts | None:
    """What a certificate says; None when it cannot be read, is not its key's, or not signed by the authority."""
    _load()
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import serialization

    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, password=None)
        if key.public_key() != certificate.public_key():
            return None
        if authority is not None:
            certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
    except (ValueError, TypeError, InvalidSignature):
        return None
    try:
        shown = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = frozenset(str(name.value) for name in shown)
    except x509.ExtensionNotFound:
        names = frozenset()
    return Facts(certificate.not_valid_before_utc + BACKDATE, certificate.not_valid_after_utc, names)


def _load() -> None:
    try:
        import cryptography  # noqa: F401 - whether it is there
    except ImportError as error:
        raise LibraryMissing from error


def _named(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
    until: dt.datetime,
    *,
    is_authority: bool,
) -> x509.CertificateBuilder:
    from cryptography import x509

    usage = x509.KeyUsage(True, False, False, False, False, is_authority, is_authority, False, False)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), True)
        .add_extension(usage, True)
    )


def _signed(built: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey) -> Pair:
    from cryptography.hazmat.primitives import hashes, serialization

    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(built.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), private)


def _alternative(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
