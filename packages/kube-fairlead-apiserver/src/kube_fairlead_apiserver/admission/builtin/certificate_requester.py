"""The user fields of a CertificateSigningRequest: set by the server, not by the request.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/certificates/certificates/strategy.go
"""

from __future__ import annotations

from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation

__all__ = ["CertificateRequester"]


class CertificateRequester(AdmissionPlugin):
    """Writes the caller into a CertificateSigningRequest, for its approver.

    Kubernetes does so when it prepares the object, where it knows the caller; here only admission does.
    """

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """New requests."""
        wanted = ("CREATE", "certificates.k8s.io", "certificatesigningrequests", "")
        return (operation, group, plural, subresource) == wanted

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
