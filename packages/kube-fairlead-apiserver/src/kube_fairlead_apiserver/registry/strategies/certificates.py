"""CertificateSigningRequests: the request, its signer and its usages.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/certificates/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/certificates/certificates/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/certificates/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/certificates/v1/zz_generated.validations.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/certificates/types.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/names.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/certificates/v1/helpers.go
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

from kube_fairlead.api import golang, names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.security.pki.pem import certificates_fault
from kube_fairlead_apiserver.security.pki.subjects import InvalidCertificateRequest, request_organizations

__all__ = ["CertificateSigningRequestStrategy"]

_SPEC: Final = FieldPath("spec")
_CONDITIONS: Final = FieldPath("status", "conditions")
_CERTIFICATE: Final = FieldPath("status", "certificate")
_DECISIONS: Final = ("Approved", "Denied")  # set through the approval subresource only
_LASTING: Final = (*_DECISIONS, "Failed")  # permanent, with status True
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
    """certificates.k8s.io/v1 CertificateSigningRequest: the spec is immutable."""

    has_status: bool = True

    def prepare_create(self, obj: Json) -> None:
        """A new request has no approval."""
        obj["status"] = {}

    def prepare_update(self, obj: Json, old: Json) -> None:
        """Spec and status do not change through the main resource."""
        super().prepare_update(obj, old)
        obj["spec"] = old.get("spec") or {}

    def prepare_status_update(self, obj: Json, old: Json) -> None:
        """Keep the existing approval conditions; validation rejects added or removed ones."""
        super().prepare_status_update(obj, old)
        conditions = (obj.get("status") or {}).get("conditions") or []
        for kind in _DECISIONS:
            there, was = _of_type(obj, kind), _of_type(old, kind)
            if len(there) == len(was):
                kept = iter(was)
                conditions[:] = [next(kept) if one.get("type") == kind else one for one in conditions]

    def prepare_subresource_update(self, subresource: str, obj: Json, old: Json) -> None:
        """An approval changes conditions only."""
        del subresource
        conditions = (obj.get("status") or {}).get("conditions")
        super().prepare_status_update(obj, old)
        obj["status"] = {**(old.get("status") or {}), "conditions": conditions or []}

    def set_times(self, obj: Json, old: Json, now: str) -> None:
        """Set missing times of conditions."""
        for condition in (obj.get("status") or {}).get("conditions") or ():
            condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
            if not condition.get("lastTransitionTime"):
                kept = (
                    one["lastTransitionTime"]
                    for one in _of_type(old, condition.get("type"))
                    if one.get("status") == condition.get("status") and one.get("lastTransitionTime")
                )
                condition["lastTransitionTime"] = next(kept, now)

    def validate_status_update(self, obj: Json, old: Json) -> list[FieldError]:
        """A status write cannot approve, and an issued certificate is immutable."""
        problems = _validate_conditions(obj, old)
        for kind in _DECISIONS:
            there, was = _of_type(obj, kind), _of_type(old, kind)
            if len(there) > len(was):
                problems.append(FieldError.forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"'))
            elif len(there) == len(was) and there != was:
                text = f'updates may not modify a condition of type "{kind}"'
                problems.append(FieldError.forbidden(_CONDITIONS, text))
        return problems + _validate_certificate(_certificate(obj), _certificate(old))

    def validate_subresource_update(self, subresource: str, obj: Json, old: Json) -> list[FieldError]:
        """Validate an approval."""
        del subresource
        return _validate_conditions(obj, old)

    def validate(self, obj: Json) -> list[FieldError]:
        """A request in PEM, for known usages, with a signer."""
        spec = obj.get("spec") or {}
        problems: list[FieldError] = []
        fault = _fault(spec.get("request") or "")
        if fault:
            problems.append(FieldError.invalid(_SPEC.child("request"), spec.get("request") or None, fault))
        problems += _validate_usages(spec.get("usages") or [])
        problems += _validate_signer(spec.get("signerName") or "", _SPEC.child("signerName"))
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < _MIN_SECONDS:
            text = "may not specify a duration less than 600 seconds (10 minutes)"
            problems.append(FieldError.invalid(_SPEC.child("expirationSeconds"), seconds, text))
        return problems

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change: the spec is immutable, so it is not validated again."""
        del obj, old
        return []


def _fault(request: str) -> str:
    """Return the error of the request itself; empty when it is valid."""
    try:
        request_organizations(base64.b64decode(request, validate=True))
    except InvalidCertificateRequest as error:
        return str(error)
    except (binascii.Error, ValueError):
        return "PEM block type must be CERTIFICATE REQUEST"
    return ""


def _certificate(obj: Json) -> str:
    return (obj.get("status") or {}).get("certificate") or ""


def _validate_certificate(signed: str, was: str) -> list[FieldError]:
    if signed == was:
        return []
    fault = certificates_fault(base64.b64decode(signed)) if signed else ""
    was_well = not was or not certificates_fault(base64.b64decode(was))  # else nothing better is asked for
    problems = [FieldError.invalid(_CERTIFICATE, "<certificate data>", fault)] if fault and was_well else []
    if was:
        problems.append(FieldError.forbidden(_CERTIFICATE, "updates may not modify existing certificate content"))
    return problems


def _of_type(obj: Json, kind: object) -> list[Json]:
    return [one for one in (obj.get("status") or {}).get("conditions") or () if one.get("type") == kind]


def _validate_conditions(obj: Json, old: Json) -> list[FieldError]:
    """Existing violations are accepted: duplicate types, an empty type, both decisions."""
    problems: list[FieldError] = []
    was = [one.get("type") or "" for one in (old.get("status") or {}).get("conditions") or ()]
    may_repeat, may_be_empty = len(set(was)) < len(was), "" in was
    may_be_both = all(kind in was for kind in _DECISIONS)
    seen: set[str] = set()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or []):
        at, kind, status = _CONDITIONS.index(index), condition.get("type") or "", condition.get("status")
        allowed = ("True",) if kind in _LASTING else ("False", "True", "Unknown")
        if not kind and not may_be_empty:
            problems.append(FieldError.required(at.child("type"), ""))
        if not status:
            problems.append(FieldError.required(at.child("status"), ""))
        elif status not in allowed:
            problems.append(FieldError.not_supported(at.child("status"), status, allowed))
        if kind in _DECISIONS and any(one in seen for one in _DECISIONS if one != kind) and not may_be_both:
            text = "Approved and Denied conditions are mutually exclusive"
            problems.append(FieldError.invalid(_CONDITIONS, kind, text))
        if kind in seen and not may_repeat:
            problems.append(FieldError.duplicate(at.child("type"), kind))
        seen.add(kind)
    for kind in _LASTING:
        if len(_of_type(obj, kind)) < len(_of_type(old, kind)):
            text = f'updates may not remove a condition of type "{kind}"'
            problems.append(FieldError.forbidden(_CONDITIONS, text))
    return problems


def _validate_usages(usages: list[str]) -> list[FieldError]:
    if not usages:
        return [FieldError.required(_SPEC.child("usages"), "")]
    problems: list[FieldError] = []
    seen: set[str] = set()
    for index, usage in enumerate(usages):
        at = _SPEC.item("usages", index)
        if usage not in _USAGES:
            problems.append(FieldError.not_supported(at, usage, _USAGES))
        if usage in seen:
            problems.append(FieldError.duplicate(at, usage))
        seen.add(usage)
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
    """Return the error of the first invalid part; the others would repeat it."""
    for part in name.split("."):
        messages = rule(part)
        if messages:
            return [FieldError.invalid(path, name, f"validating label {golang.quote(part)}: {m}") for m in messages]
    return []
