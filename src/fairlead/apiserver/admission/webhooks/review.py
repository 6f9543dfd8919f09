"""AdmissionReviews: what a webhook is asked, and what its answer says. Pure."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import Any

import msgspec

from fairlead.api import golang
from fairlead.apiserver.admission import request
from fairlead.apiserver.admission.interface import Operation
from fairlead.apiserver.registry.resource import Resource

__all__ = ["InvalidReview", "Verdict", "read_review", "write_review"]

Json = dict[str, Any]

_GROUP = "admission.k8s.io"
_KIND = "AdmissionReview"


class InvalidReview(Exception):
    """The answer is no answer. Says why as Kubernetes does."""


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: Json | None = None
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: _Response | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What a webhook said. ``patch`` is a JSON patch, not decoded yet; empty for none."""

    allowed: bool
    status: Json | None = None
    patch: bytes = b""
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = dataclasses.field(default_factory=dict)


def write_review(operation: Operation, target: Resource, *, uid: str, version: str) -> bytes:
    """The question, in a version of AdmissionReview that the webhook understands."""
    asked = {
        "uid": uid,
        **request.describe(operation, target),
        "object": request.shown_object(operation, target),
        "oldObject": request.shown_old_object(operation, target),
    }
    review = {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": asked}
    return msgspec.json.encode(review)


def read_review(body: bytes, *, uid: str, version: str, mutating: bool) -> Verdict:
    """The answer; raises InvalidReview for one that cannot be trusted to belong to the question."""
    review = msgspec.json.decode(body, type=_Review)
    response = review.response
    if response is None:
        raise InvalidReview("webhook response was absent")
    if version == "v1":
        _check_envelope(review, response, uid)
    if version == "v1":
        _check_patch(response, mutating=mutating)
    return Verdict(
        allowed=response.allowed,
        status=response.status,
        patch=_decoded(response.patch) if mutating and response.patch else b"",
        warnings=tuple(response.warnings or ()),
        audit_annotations=response.audit_annotations or {},
    )


def _check_envelope(review: _Review, response: _Response, uid: str) -> None:
    if response.uid != uid:
        raise InvalidReview(f"expected response.uid={golang.quote(uid)}, got {golang.quote(response.uid)}")
    if (review.api_version, review.kind) != (f"{_GROUP}/v1", _KIND):
        raise InvalidReview(
            f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, "
            f"got {review.api_version or '/'}, Kind={review.kind}"
        )


def _check_patch(response: _Response, *, mutating: bool) -> None:
    if not mutating:
        if response.patch:
            raise InvalidReview("validating webhook may not return response.patch")
        if response.patch_type is not None:
            raise InvalidReview("validating webhook may not return response.patchType")
        return
    if response.patch and response.patch_type is None:
        raise InvalidReview("webhook returned response.patch but not response.patchType")
    if not response.patch and response.patch_type is not None:
        raise InvalidReview("webhook returned response.patchType but not response.patch")
    if response.patch_type not in {None, "JSONPatch"}:
        raise InvalidReview(f"webhook returned invalid response.patchType of {golang.quote(response.patch_type or '')}")


def _decoded(patch: str) -> bytes:
    try:
        return base64.b64decode(patch, validate=True)
    except binascii.Error as error:
        raise InvalidReview(f"response.patch: illegal base64 data: {error}") from error
