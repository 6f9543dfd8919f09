"""Reads certificate signing requests as their signers do.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/certificates/helpers.go
"""

from __future__ import annotations

import base64
import re

__all__ = ["InvalidCertificateRequest", "request_organizations"]

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
