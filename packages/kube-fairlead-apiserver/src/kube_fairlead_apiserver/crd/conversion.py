"""Converting custom resources between versions: not at all (strategy None), or by a webhook.

A webhook is asked with `conversion_review` and answers with what `read_response` checks; sending it is not done
here.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/conversion/webhook_converter.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/conversion/nop_converter.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/conversion/converter.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kube_fairlead.api import golang
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.schema.correlation import same_json
from kube_fairlead_apiserver.schema.defaulting import copy_json

__all__ = ["REVIEW_VERSIONS", "ConversionError", "conversion_review", "convert_none", "read_response", "review_version"]


REVIEW_VERSIONS = ("v1", "v1beta1")
_REVIEW_GROUP = "apiextensions.k8s.io"


class ConversionError(Exception):
    """A webhook did not convert; the message is Kubernetes'."""


def convert_none(obj: Json, api_version: str) -> Json:
    """Strategy None: the same object under another apiVersion."""
    return obj if obj.get("apiVersion") == api_version else {**obj, "apiVersion": api_version}


def review_version(crd: Json) -> str | None:
    """The first version of ConversionReview that the webhook and this server both speak."""
    webhook = (crd["spec"].get("conversion") or {}).get("webhook") or {}
    return next((name for name in webhook.get("conversionReviewVersions") or () if name in REVIEW_VERSIONS), None)


def conversion_review(objects: Sequence[Json], api_version: str, uid: str, version: str = "v1") -> Json:
    """The question for a webhook; objects that already have the version are not asked about."""
    return {
        "apiVersion": f"{_REVIEW_GROUP}/{version}",
        "kind": "ConversionReview",
        "request": {
            "uid": uid,
            "desiredAPIVersion": api_version,
            "objects": [obj for obj in objects if obj.get("apiVersion") != api_version],
        },
    }


def read_response(review: Json, answer: Any, originals: Sequence[Json]) -> list[Json]:
    """The converted objects in the order of the originals, checked: a webhook may not change identity or metadata."""
    request = review["request"]
    converted = _converted_objects(review, answer)
    asked = request["objects"]
    wanted = request["desiredAPIVersion"]
    if len(converted) != len(asked):
        raise ConversionError(f"webhook returned {len(converted)} objects, expected {len(asked)}")
    results: list[Json] = []
    answers = iter(zip(asked, converted, strict=True))
    for original in originals:
        if original.get("apiVersion") == wanted:
            results.append(original)
            continue
        before, after = next(answers)
        results.append(_checked(before, after, wanted, len(results)))
    return results


def _converted_objects(review: Json, answer: Any) -> list[Any]:
    if not isinstance(answer, dict) or answer.get("kind") != "ConversionReview":
        kind = answer.get("kind", "") if isinstance(answer, dict) else ""
        version = answer.get("apiVersion", "") if isinstance(answer, dict) else ""
        raise ConversionError(
            f"invalid response from webhook: expected {review['apiVersion']}, Kind=ConversionReview, "
            f"got {version}, Kind={kind}"
        )
    response = answer.get("response")
    if not isinstance(response, dict):
        raise ConversionError("invalid response from webhook: no response provided")
    if review["apiVersion"].endswith("/v1") and response.get("uid") != review["request"]["uid"]:
        expected, got = golang.quote(review["request"]["uid"]), golang.quote(str(response.get("uid", "")))
        raise ConversionError(f"invalid response from webhook: expected response.uid={expected}, got {got}")
    result = response.get("result") or {}
    if result.get("status") != "Success":
        raise ConversionError(result.get("message") or "unknown error")
    objects = response.get("convertedObjects")
    return objects if isinstance(objects, list) else []


def _checked(before: Json, after: Any, wanted: str, index: int) -> Json:
    where = f"invalid converted object at index {index}"
    if not isinstance(after, dict):
        raise ConversionError(f"{where}: invalid type, expected=Unstructured")
    if after.get("apiVersion") != wanted:
        raise ConversionError(f"{where}: invalid apiVersion, expected={wanted}, got={after.get('apiVersion', '')}")
    if after.get("kind") != before.get("kind"):
        raise ConversionError(f"{where}: invalid kind, expected={before.get('kind')}, got={after.get('kind', '')}")
    old, new = before.get("metadata") or {}, after.get("metadata")
    if not isinstance(new, dict):
        raise ConversionError(f"{where}: invalid metadata of type {type(new).__name__} in input object")
    for key in ("name", "namespace", "uid"):
        if new.get(key) != old.get(key):
            raise ConversionError(f"{where}: must have the same {key}: {old.get(key)!r} != {new.get(key)!r}")
    # Only labels and annotations are the webhook's to change; everything else is restored.
    metadata = copy_json(old)
    for key in ("labels", "annotations"):
        if key in new and not same_json(new[key], old.get(key)):
            metadata[key] = new[key]
        elif key not in new:
            metadata.pop(key, None)
    return {**after, "metadata": metadata}
