"""Reads the user of a client certificate.

Upstream: k8s.io/apiserver@v0.36.4/pkg/authentication/request/x509/x509.go
"""

from __future__ import annotations

import functools
import hashlib

__all__ = ["certificate_subject"]


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
