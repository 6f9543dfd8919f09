"""The errors of patches, with the code, reason and text of the Kubernetes API server.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/patch.go,
    sigs.k8s.io/json@v0.0.0-20250730193827-2d320260d730/internal/golang/encoding/json/decode.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api import errors

__all__ = [
    "too_deep",
    "too_many_operations",
    "undecodable_field",
    "undecodable_patch",
    "unprocessable",
]


def too_deep(limit: int) -> errors.BadRequest:
    """Build the error of a document that nests deeper than the limit."""
    return errors.BadRequest(f"error decoding patch: exceeded max depth of {limit}")


def too_many_operations(limit: int, got: int) -> errors.RequestEntityTooLarge:
    """Build the error of a JSON patch with more operations than the limit."""
    return errors.request_entity_too_large(f"The allowed maximum operations in a JSON patch is {limit}, got {got}")


def undecodable_patch(value: Any, wanted: str) -> errors.BadRequest:
    """Build the error of a patch that is JSON of the wrong type."""
    return errors.BadRequest(
        f"error decoding patch: json: cannot unmarshal {_json_type(value)} into Go value of type {wanted}"
    )


def undecodable_field(value: Any, field: str) -> errors.BadRequest:
    """Build the error of a patch operation whose field has the wrong type; all checked fields are strings."""
    return errors.BadRequest(
        f"error decoding patch: json: cannot unmarshal {_json_type(value)} into Go struct field {field} of type string"
    )


def unprocessable(detail: str) -> errors.Invalid:
    """Build the error of a well-formed patch that does not apply to this object.

    Kubernetes has only this message. The cause beside it is an addition, and kubectl prints it.
    """
    return errors.Invalid(
        "the server rejected our request due to an error in our request",
        details={"causes": [{"reason": "FieldValueInvalid", "message": detail, "field": "patch"}]},
    )


def _json_type(value: Any) -> str:
    names = {bool: "bool", dict: "object", float: "number", int: "number", list: "array", str: "string"}
    return names.get(type(value), "null")
