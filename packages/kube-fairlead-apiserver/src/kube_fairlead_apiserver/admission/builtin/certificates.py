"""Plugins for CertificateSigningRequests: requester, approval, signing and subject restriction.

The permission to write `certificatesigningrequests/approval` is not limited to a signer: without these plugins it would
allow every certificate, those of `system:masters` too.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/certificates/approval/admission.go,
    k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/certificates/signing/admission.go,
    k8s.io/kubernetes@v1.36.4/plugin/pkg/admission/certificates/subjectrestriction/admission.go,
    k8s.io/kubernetes@v1.36.4/pkg/certauthorization/certauthorization.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/certificates/certificates/strategy.go
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from kube_fairlead.api import golang
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.security import identities
from kube_fairlead_apiserver.security.pki.subjects import InvalidCertificateRequest, request_organizations

__all__ = ["CertificateApproval", "CertificateRequester", "CertificateSigning", "CertificateSubjectRestriction"]

# None when allowed, else the reason.
Authorize = Callable[[Attributes], str | None]

_GROUP = "certificates.k8s.io"
_REQUESTS = "certificatesigningrequests"
_API_CLIENTS = "kubernetes.io/kube-apiserver-client"


class CertificateRequester(AdmissionPlugin):
    """Writes the caller into a CertificateSigningRequest, for its approver.

    Kubernetes does so when it prepares the object, where it knows the caller; here only admission does.
    """

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """New requests."""
        return (operation, group, plural, subresource) == ("CREATE", _GROUP, _REQUESTS, "")

    async def admit(self, operation: Operation) -> None:
        """Replace the user fields by the caller."""
        if operation.obj is None:
            return
        spec, user = operation.obj.setdefault("spec", {}), operation.user
        said = {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        for field, value in said.items():
            spec.pop(field, None)
            if value:
                spec[field] = value


class CertificateApproval(AdmissionPlugin):
    """Approving or denying a request needs the permission to `approve` for its signer."""

    def __init__(self, authorize: Authorize) -> None:
        self._authorize = authorize

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Changes of the approval."""
        return (operation, group, plural, subresource) == ("UPDATE", _GROUP, _REQUESTS, "approval")

    async def validate(self, operation: Operation) -> None:
        """Check the stored signer: the write may name another one."""
        signer = _signer(operation.old)
        if not _may(self._authorize, operation.user, "approve", signer):
            raise operation.forbidden(f"user not permitted to approve requests with signerName {golang.quote(signer)}")


class CertificateSigning(AdmissionPlugin):
    """Writing the certificate or the conditions of a request needs the permission to `sign` for its signer."""

    def __init__(self, authorize: Authorize) -> None:
        self._authorize = authorize

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Changes of the status."""
        return (operation, group, plural, subresource) == ("UPDATE", _GROUP, _REQUESTS, "status")

    async def validate(self, operation: Operation) -> None:
        """Other fields of the status, and the metadata, need no permission."""
        signer = _signer(operation.old)
        if _outcome(operation.obj) == _outcome(operation.old):
            return
        if not _may(self._authorize, operation.user, "sign", signer):
            raise operation.forbidden(f"user not permitted to sign requests with signerName {golang.quote(signer)}")


class CertificateSubjectRestriction(AdmissionPlugin):
    """Rejects client certificates for the group system:masters."""

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """New requests."""
        return (operation, group, plural, subresource) == ("CREATE", _GROUP, _REQUESTS, "")

    async def validate(self, operation: Operation) -> None:
        """Check the subject of the request."""
        if _signer(operation.obj) != _API_CLIENTS:
            return
        request = ((operation.obj or {}).get("spec") or {}).get("request") or ""
        try:
            organizations = request_organizations(base64.b64decode(request, validate=True))
        except (InvalidCertificateRequest, binascii.Error, ValueError) as error:
            raise operation.forbidden(f"failed to parse CSR: {error}") from error
        if identities.MASTERS in organizations:
            raise operation.forbidden(f"use of {_API_CLIENTS} signer with {identities.MASTERS} group is not allowed")


def _signer(request: Json | None) -> str:
    name: str = ((request or {}).get("spec") or {}).get("signerName") or ""
    return name


def _outcome(request: Json | None) -> tuple[object, object]:
    status = (request or {}).get("status") or {}
    return status.get("certificate") or "", status.get("conditions") or []


def _may(authorize: Authorize, user: UserInfo, verb: str, signer: str) -> bool:
    """Return whether the user may do this for the signer, or for all signers of its domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    return any(
        authorize(Attributes(user, verb, "", resource="signers", group=_GROUP, version="*", name=name)) is None
        for name in names
    )
