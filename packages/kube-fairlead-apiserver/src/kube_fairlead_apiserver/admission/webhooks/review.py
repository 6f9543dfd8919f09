"""AdmissionReviews: the request to a webhook, and its response. Pure.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/request/admissionreview.go,
    k8s.io/apimachinery@v0.36.4/pkg/runtime/serializer/json/meta.go
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from kube_fairlead.api import golang
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission import request
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["AdmissionResponse", "InvalidReview", "UndecodableReview", "read_review", "write_review"]


_GROUP = "admission.k8s.io"
_KIND = "AdmissionReview"
_API_VERSIONS = frozenset({f"{_GROUP}/v1", f"{_GROUP}/v1beta1"})


class InvalidReview(Exception):
    """The response is an AdmissionReview, but not for this request. The message is Kubernetes' own."""


class UndecodableReview(Exception):
    """The response cannot be decoded. The message is that of Go's decoder, because users see it."""


class AdmissionResponse(msgspec.Struct, frozen=True):
    """The response of a webhook. ``patch`` is a JSON patch, not decoded yet; empty for none."""

    allowed: bool
    status: Json | None = None
    patch: bytes = b""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = {}


# The fields of a response with their types, as JSON has them and as Go calls them.
_FIELDS: Mapping[str, tuple[type, str]] = {
    "uid": (str, "types.UID"),
    "allowed": (bool, "bool"),
    "status": (dict, "v1.Status"),
    "patch": (str, "[]uint8"),
    "patchType": (str, "v1.PatchType"),
    "auditAnnotations": (dict, "map[string]string"),
    "warnings": (list, "[]string"),
}
_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def write_review(operation: Operation, target: Resource, *, uid: str, version: str, mutating: bool) -> bytes:
    """Return the request, in a version of AdmissionReview that the webhook supports."""
    obj = request.shown_object(operation, target)
    if mutating and operation.operation == "CREATE" and obj is not None:
        obj = _unborn(obj)
    asked = {
        "uid": uid,
        **request.describe(operation, target),
        "object": obj,
        "oldObject": request.shown_old_object(operation, target),
    }
    review = {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": asked}
    return msgspec.json.encode(review)


def _unborn(obj: Json) -> Json:
    """Return a new object without a uid: Kubernetes sets it only after mutating admission."""
    metadata = {
        key: value for key, value in (obj.get("metadata") or {}).items() if key not in {"uid", "creationTimestamp"}
    }
    return {**obj, "metadata": metadata}


def read_review(body: bytes, *, uid: str, version: str, mutating: bool) -> AdmissionResponse:
    """Read the response.

    Raises:
        UndecodableReview: it is no AdmissionReview.
        InvalidReview: it does not belong to this request.
    """
    review = _decode(body)
    response = _response(review, version)
    if response is None:
        raise InvalidReview("webhook response was absent")
    if version == "v1":
        _check_envelope(review, response, uid)
        _check_patch(response, mutating=mutating)
    patch_type = response.get("patchType") or ("" if version == "v1" else "JSONPatch")
    return AdmissionResponse(
        allowed=response.get("allowed", False),
        status=response.get("status"),
        patch=_base64(response.get("patch") or "") if mutating else b"",
        patch_type=patch_type,
        warnings=tuple(map(str, response.get("warnings") or ())),
        audit_annotations={key: str(value) for key, value in (response.get("auditAnnotations") or {}).items()},
    )


def _decode(body: bytes) -> Json:
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        review = ""  # Kubernetes tries YAML next, to which nearly everything is a string
    if not isinstance(review, dict):
        found = _JSON_NAMES.get(type(review), "null")
        problem = f"json: cannot unmarshal {found} into Go value of type {_TYPE_META}"
        raise UndecodableReview(f"couldn't get version/kind; json parse error: {problem}")
    return review


def _response(review: Json, version: str) -> Json | None:
    stated = review.get("apiVersion")
    if stated in _API_VERSIONS and stated != f"{_GROUP}/{version}":
        raise UndecodableReview(
            f"converting ({str(stated).rpartition('/')[2]}.{_KIND}) to ({version}.{_KIND}): unknown conversion"
        )
    response = review.get("response")
    if response is None:
        return None
    if not isinstance(response, dict):
        raise UndecodableReview(_unfit(response, f"{_KIND}.response", "v1.AdmissionResponse"))
    for field, (kind, go_type) in _FIELDS.items():
        value = response.get(field)
        if value is not None and not isinstance(value, kind):
            raise UndecodableReview(_unfit(value, f"AdmissionResponse.response.{field}", go_type))
    return response


def _unfit(value: Any, field: str, go_type: str) -> str:
    return f"json: cannot unmarshal {_JSON_NAMES[type(value)]} into Go struct field {field} of type {go_type}"


def _check_envelope(review: Json, response: Json, uid: str) -> None:
    answered = response.get("uid") or ""
    if answered != uid:
        raise InvalidReview(f"expected response.uid={golang.quote(uid)}, got {golang.quote(answered)}")
    api_version, kind = review.get("apiVersion") or "/", review.get("kind") or ""
    if (api_version, kind) != (f"{_GROUP}/v1", _KIND):
        raise InvalidReview(f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {api_version}, Kind={kind}")


def _check_patch(response: Json, *, mutating: bool) -> None:
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating:
        if patch:
            raise InvalidReview("validating webhook may not return response.patch")
        if patch_type is not None:
            raise InvalidReview("validating webhook may not return response.patchType")
        return
    if patch and patch_type is None:
        raise InvalidReview("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise InvalidReview("webhook returned response.patchType but not response.patch")
    if patch_type is not None and not patch_type:
        raise InvalidReview('webhook returned invalid response.patchType of ""')


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        wrong = next((i for i, char in enumerate(text) if not char.isalnum() and char not in "+/="), len(text))
        raise UndecodableReview(f"illegal base64 data at input byte {wrong}") from None
