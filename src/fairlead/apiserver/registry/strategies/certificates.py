"""Requests for certificates: what can be signed, by whom, and for which use."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

from fairlead.api import golang, names
from fairlead.api.fielderrors import FieldError, FieldPath
from fairlead.apiserver.registry.strategy import Json, Strategy

__all__ = ["CertificateSigningRequestStrategy"]

_SPEC: Final = FieldPath("spec")
_BEGIN: Final = b"-----BEGIN CERTIFICATE REQUEST-----"
_MIN_SECONDS: Final = 600
_USAGES: Final = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


class CertificateSigningRequestStrategy(Strategy):
    """certificates.k8s.io/v1 CertificateSigningRequest: what was asked for stays."""

    has_status: bool = True

    def prepare_create(self, obj: Json) -> None:
        """Nobody has decided yet."""
        obj["status"] = {}

    def prepare_update(self, obj: Json, old: Json) -> None:
        """Neither the request nor the answer changes through the main resource."""
        super().prepare_update(obj, old)
        obj["spec"] = old.get("spec") or {}

    def validate(self, obj: Json) -> list[FieldError]:
        """A request in PEM, for known uses, to somebody."""
        spec = obj.get("spec") or {}
        problems: list[FieldError] = []
        if not _is_request(spec.get("request")):
            text = "PEM block type must be CERTIFICATE REQUEST"
            problems.append(FieldError.invalid(_SPEC.child("request"), spec.get("request") or None, text))
        problems += _validate_usages(spec.get("usages") or [])
        problems += _validate_signer(spec.get("signerName") or "", _SPEC.child("signerName"))
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < _MIN_SECONDS:
            text = "may not specify a duration less than 600 seconds (10 minutes)"
            problems.append(FieldError.invalid(_SPEC.child("expirationSeconds"), seconds, text))
        return problems

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """What was accepted once was looked at then."""
        del obj, old
        return []


def _is_request(value: str | None) -> bool:
    try:
        lines = base64.b64decode(value or "", validate=True).splitlines()
    except (binascii.Error, ValueError):
        return False
    return any(line.strip() == _BEGIN for line in lines)


def _validate_usages(usages: list[str]) -> list[FieldError]:
    if not usages:
        return [FieldError.required(_SPEC.child("usages"), "")]
    problems: list[FieldError] = []
    for index, usage in enumerate(usages):
        at = _SPEC.item("usages", index)
        if usage not in _USAGES:
            problems.append(FieldError.not_supported(at, usage, _USAGES))
        if usage in usages[:index]:
            problems.append(FieldError.duplicate(at, usage))
    return problems


def _validate_signer(name: str, path: FieldPath) -> list[FieldError]:
    if not name:
        return [FieldError.required(path, "")]
    if name == "kubernetes.io/legacy-unknown":
        return [FieldError.invalid(path, name, "the legacy signerName is not allowed via this API version")]
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [FieldError.invalid(path, name, text)]
    problems = _first_bad_part(domain, path, names.dns1123_label)
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        problems.append(FieldError.invalid(path, domain, text))
    return problems + _first_bad_part(rest, path, names.dns1123_subdomain)


def _first_bad_part(name: str, path: FieldPath, rule: Callable[[str], list[str]]) -> list[FieldError]:
    """What is wrong with the first part that is wrong; the others would only say the same."""
    for part in name.split("."):
        messages = rule(part)
        if messages:
            return [FieldError.invalid(path, name, f"validating label {golang.quote(part)}: {m}") for m in messages]
    return []
