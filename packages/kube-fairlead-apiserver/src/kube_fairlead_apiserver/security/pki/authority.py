"""The server's certificate authority, and the certificates that it signs. Keys are P-256."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead_apiserver.security.pki.credentials import Credentials, PkiError
from kube_fairlead_apiserver.security.private_files import read_private, write_private

__all__ = ["Authority", "Span", "validity"]

_AUTHORITY_YEARS = 10
_LEAF_DAYS = 365
_RENEW_BEFORE = dt.timedelta(days=30)
_AUTHORITY_RENEW_BEFORE = dt.timedelta(days=_LEAF_DAYS)  # certificates that it signs must not outlive it
_MAX_NAME_BYTES = 64  # X.509's limit for a CN and an O
_BACKDATE = dt.timedelta(hours=1)  # clients' clocks may be behind
_PROGRAM_EXISTS_SINCE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)  # an earlier clock is wrong

# The time span in which a certificate is valid.
Span = tuple[dt.datetime, dt.datetime]


def validity(now: dt.datetime, lasts: dt.timedelta, old: Span | None = None) -> Span:
    """Return the validity of a new certificate, given the one that it replaces.

    A machine may start with a clock that is years off, and correct it while the server runs. So a clock outside of the
    old certificate's validity may be wrong: the new certificate is valid by both.
    """
    begin, end = now - _BACKDATE, max(now, _PROGRAM_EXISTS_SINCE) + lasts
    if old is not None and not old[0] <= now < old[1]:
        begin, end = min(begin, old[0]), max(end, old[0] + _BACKDATE + lasts)
    return begin, end


class Authority:
    """A certificate authority kept in a folder as `ca.crt` and `ca.key`."""

    def __init__(
        self,
        folder: Path,
        certificate: x509.Certificate,
        key: ec.EllipticCurvePrivateKey,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._folder = folder
        self._certificate = certificate
        self._key = key
        self._clock = clock
        self._randomness = randomness

    @classmethod
    def open(cls, folder: Path, clock: Clock, randomness: Randomness) -> Authority:
        """Open the authority of this folder, or create one if there is none.

        An incomplete one is rejected, never replaced.
        """
        certificate_pem = read_private(folder / "ca.crt")
        key_pem = read_private(folder / "ca.key")
        if certificate_pem is None and key_pem is None:
            return cls._create(folder, clock, randomness)
        if certificate_pem is None or key_pem is None:
            missing = "ca.crt" if certificate_pem is None else "ca.key"
            raise PkiError(
                f"{folder / missing} is missing beside its other half: restore it, or remove both for a new authority"
            )
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem)
            key = serialization.load_pem_private_key(key_pem, password=None)
        except ValueError as error:
            raise PkiError(f"cannot read the authority in {folder}: {error}; restore ca.crt and ca.key") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise PkiError(f"{folder / 'ca.key'} is not the key of {folder / 'ca.crt'}: restore the one that belongs")
        now = clock.now()
        if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _AUTHORITY_RENEW_BEFORE:
            # With the same key: certificates that it signed stay valid, and so does a client's older copy of the CA.
            certificate = cls._sign_own(key, clock, randomness, certificate)
            write_private(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))
        return cls(folder, certificate, key, clock, randomness)

    @classmethod
    def _create(cls, folder: Path, clock: Clock, randomness: Randomness) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = cls._sign_own(key, clock, randomness)
        # The key first: an authority without its key is refused at the next start, a key alone is too, but a
        # certificate is never given out before its key is safe.
        write_private(folder / "ca.key", _key_pem(key))
        write_private(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))
        return cls(folder, certificate, key, clock, randomness)

    @staticmethod
    def _sign_own(
        key: ec.EllipticCurvePrivateKey, clock: Clock, randomness: Randomness, old: x509.Certificate | None = None
    ) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairlead-ca")])
        begin, end = validity(clock.now(), dt.timedelta(days=365 * _AUTHORITY_YEARS), _span(old))
        if old is not None:
            end = max(end, old.not_valid_after_utc)  # its certificates are valid until then
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(_serial(randomness))
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )

    @property
    def certificate_file(self) -> Path:
        """The CA certificate in PEM."""
        return self._folder / "ca.crt"

    @property
    def certificate_pem(self) -> bytes:
        """The authority's own certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def serving(self, names: Sequence[str]) -> tuple[Path, Path]:
        """Return certificate and key files for these DNS names and addresses; they are renewed when those change."""
        certificate_file, key_file = self._folder / "apiserver.crt", self._folder / "apiserver.key"
        alternatives = [_alternative(name) for name in dict.fromkeys(names)]
        if not self._still_good(certificate_file, key_file, alternatives):
            issued = self._issue(
                x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairlead-apiserver")]),
                ExtendedKeyUsageOID.SERVER_AUTH,
                x509.SubjectAlternativeName(alternatives),
                old=read_private(certificate_file),
            )
            write_private(key_file, issued.key, durable=False)  # a partly written one is detected, and created again
            write_private(certificate_file, issued.certificate, durable=False)
        return certificate_file, key_file

    def _still_good(self, certificate_file: Path, key_file: Path, alternatives: Sequence[x509.GeneralName]) -> bool:
        certificate_pem, key_pem = read_private(certificate_file), read_private(key_file)
        if certificate_pem is None or key_pem is None:
            return False
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem)
            key = serialization.load_pem_private_key(key_pem, password=None)
            certificate.verify_directly_issued_by(self._certificate)
            extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except Exception:  # noqa: BLE001 - whatever is wrong with a derived file, a new one cures it
            return False
        now = self._clock.now()
        return (
            key.public_key() == certificate.public_key()
            and set(extension.value) == set(alternatives)
            and certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _RENEW_BEFORE
        )

    def good_between(self, certificates: Sequence[bytes]) -> tuple[dt.datetime, dt.datetime]:
        """Return the time span in which these certificates and the authority's own need no renewal."""
        found = [x509.load_pem_x509_certificate(pem) for pem in certificates]
        own = self._certificate
        return (
            max(own.not_valid_before_utc, *(each.not_valid_before_utc for each in found)),
            min(
                own.not_valid_after_utc - _AUTHORITY_RENEW_BEFORE,
                *(each.not_valid_after_utc - _RENEW_BEFORE for each in found),
            ),
        )

    def client(self, user: str, groups: Sequence[str] = (), *, old: bytes | None = None) -> Credentials:
        """Return credentials of a user: the name is the CN, the groups are Os. ``old``.

        The certificate that they replace.
        """
        for text in (user, *groups):
            if not 1 <= len(text.encode()) <= _MAX_NAME_BYTES:
                raise PkiError(f"{text!r} cannot be in a certificate: a name has 1 to {_MAX_NAME_BYTES} bytes there")
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, old=old)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
        *,
        old: bytes | None = None,
    ) -> Credentials:
        key = ec.generate_private_key(ec.SECP256R1())
        begin, end = self._leaf_validity(old)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(_serial(self._randomness))
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Credentials(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))

    def _leaf_validity(self, old: bytes | None) -> Span:
        now, last = self._clock.now(), self._certificate.not_valid_after_utc
        begin, end = validity(now, dt.timedelta(days=_LEAF_DAYS), _read_span(old))
        # Nothing is known of the time: what ends a year after the program was made may have ended long ago.
        return begin, last if now < _PROGRAM_EXISTS_SINCE else min(end, last)


def _span(certificate: x509.Certificate | None) -> Span | None:
    return None if certificate is None else (certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _read_span(pem: bytes | None) -> Span | None:
    """Return the validity of a certificate file, which may be damaged: it is being replaced."""
    try:
        return None if pem is None else _span(x509.load_pem_x509_certificate(pem))
    except ValueError:
        return None


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _serial(randomness: Randomness) -> int:
    """Return a positive number of at most 20 bytes, as RFC 5280 requires."""
    return int.from_bytes(randomness.token_bytes(19), "big") or 1


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
