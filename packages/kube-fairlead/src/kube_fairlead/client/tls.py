"""TLS settings for one connection: whom we trust and what we show."""

from __future__ import annotations

import ssl

from kube_fairlead.base import files
from kube_fairlead.client import errors
from kube_fairlead.client.credentials import Certificate
from kube_fairlead.client.server_access import Access

__all__ = ["context_for", "read_authority"]


def read_authority(access: Access) -> bytes | None:
    """The certificate authorities of a server, PEM; None means the system's.

    Raises:
        ConfigError: the file cannot be read.
    """
    if access.certificate_authority is not None or access.certificate_authority_file is None:
        return access.certificate_authority
    try:
        return access.certificate_authority_file.read_bytes()
    except OSError as error:
        file = access.certificate_authority_file
        raise errors.ConfigError(f"certificate authority {file}: {error.strerror or error}") from error


def context_for(authority: bytes | None, certificate: Certificate | None, *, verify: bool) -> ssl.SSLContext:
    """Everything a TLS client needs.

    Raises:
        ConfigError: the authority or the client certificate is not usable PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # HTTP/1.1 is what we speak; saying so spares a server the guess.
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=authority.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise errors.ConfigError("the certificate authority is not a PEM certificate") from error
    if certificate is not None:
        _load_certificate(context, certificate)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Certificate) -> None:
    # OpenSSL's Python binding takes a key only from a file.
    with files.as_file(certificate.chain.rstrip() + b"\n" + certificate.key) as file:
        try:
            context.load_cert_chain(file)
        except (ssl.SSLError, ValueError) as error:
            raise errors.ConfigError("the client certificate and key are not PEM, or do not belong together") from error
