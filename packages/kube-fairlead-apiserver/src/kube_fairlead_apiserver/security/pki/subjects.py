"""Reads the subjects of client certificates and of certificate signing requests.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/certificates/helpers.go,
    k8s.io/apiserver@v0.36.4/pkg/authentication/request/x509/x509.go
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re

__all__ = ["InvalidCertificateRequest", "certificate_subject", "request_organizations"]

_BLOCK = re.compile(
    rb"\s*-----BEGIN CERTIFICATE REQUEST-----\n(?P<content>[A-Za-z0-9+/=\s]*)-----END CERTIFICATE REQUEST-----\s*"
)


class InvalidCertificateRequest(ValueError):
    """Raised for a request that cannot be signed; the message says why."""


def request_organizations(pem: bytes) -> list[str]:
    """The groups that a certificate made of this request would be in.

    One PEM block and nothing else: programs differ in which of several they take, and what was looked at here must be
    what is signed elsewhere.

    Raises:
        InvalidCertificateRequest: it is no request, or not signed by the key that it asks a certificate for.
    """
    from cryptography import x509  # imported at its first use: the server starts without it
    from cryptography.x509.oid import NameOID

    found = _BLOCK.fullmatch(pem.replace(b"\r\n", b"\n"))
    if found is None:
        raise InvalidCertificateRequest("PEM block type must be CERTIFICATE REQUEST")
    try:
        der = base64.b64decode(b"".join(found["content"].split()), validate=True)
        request = x509.load_der_x509_csr(der)
        organizations = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        signed = request.is_signature_valid
    except Exception as error:
        raise InvalidCertificateRequest(f"the request cannot be read: {error}") from error
    if not signed:
        raise InvalidCertificateRequest("the signature of the request does not match its key")
    return [str(name.value) for name in organizations]


@functools.lru_cache(maxsize=4096)
def certificate_subject(certificate: bytes) -> tuple[str, tuple[str, ...], str]:
    """Return the CN, the Os and the SHA-256 fingerprint of a DER certificate, whose chain TLS has verified."""
    # Imported with the first such client, to save time and memory at start-up.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_der_x509_certificate(certificate).subject
    names = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    organizations = [str(attribute.value) for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return (names[-1] if names else ""), tuple(organizations), hashlib.sha256(certificate).hexdigest()
