"""admission.k8s.io/v1: the API server's requests to admission webhooks, and their responses.

Upstream: k8s.io/api@v0.36.4/admission/v1/types.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api.authentication_v1 import UserInfo
from kube_fairlead.api.meta import KubeObject, Status
from kube_fairlead.api.parts import Part, always, mapping

__all__ = [
    "AdmissionRequest",
    "AdmissionResponse",
    "AdmissionReview",
    "RequestKind",
    "RequestResource",
]


class RequestKind(Part):
    """The kind of the object in a request."""

    group: str = always("")
    version: str = always("")
    kind: str = always("")


class RequestResource(Part):
    """The resource a request is for."""

    group: str = always("")
    version: str = always("")
    resource: str = always("")


class AdmissionRequest(Part):
    """A write that waits for a verdict. Objects are plain JSON: a webhook sees any kind."""

    uid: str = always("")
    kind: RequestKind = always(RequestKind())
    resource: RequestResource = always(RequestResource())
    sub_resource: str = ""
    request_kind: RequestKind | None = None
    request_resource: RequestResource | None = None
    request_sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = always("")
    user_info: UserInfo = always(UserInfo())
    object: Any = None
    old_object: Any = None
    dry_run: bool | None = None
    options: Any = None


class AdmissionResponse(Part):
    """The verdict; `patch` is base64 of a JSON patch."""

    uid: str = always("")
    allowed: bool = always(False)
    status: Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] = mapping()
    warnings: tuple[str, ...] = ()


class AdmissionReview(KubeObject):
    """The envelope, both ways."""

    api_version: str = always("admission.k8s.io/v1")
    kind: str = always("AdmissionReview")
    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None
