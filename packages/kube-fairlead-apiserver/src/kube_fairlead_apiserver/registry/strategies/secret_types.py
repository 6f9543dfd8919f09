"""Validation of secrets by type.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json

__all__ = ["validate_secret_type"]

_DATA: Final = FieldPath("data")
_ACCOUNT: Final = "kubernetes.io/service-account.name"
# All of these keys must be there.
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
_LOGIN: Final = ("username", "password")


def validate_secret_type(secret: Json) -> list[FieldError]:
    """The errors of a secret of its type."""
    kind, data = secret.get("type") or "", secret.get("data") or {}
    if kind == "kubernetes.io/service-account-token":
        if (secret["metadata"].get("annotations") or {}).get(_ACCOUNT):
            return []
        return [FieldError.required(FieldPath("metadata", "annotations").key(_ACCOUNT), "")]
    if kind == "kubernetes.io/basic-auth":
        return [] if any(key in data for key in _LOGIN) else [FieldError.required(_DATA.key(key), "") for key in _LOGIN]
    if kind == "kubernetes.io/ssh-auth":
        return [] if data.get("ssh-privatekey") else [FieldError.required(_DATA.key("ssh-privatekey"), "")]
    keys = _KEYS.get(kind, ())
    problems = [FieldError.required(_DATA.key(key), "") for key in keys if key not in data]
    if kind != "kubernetes.io/tls":
        problems += [_not_json(key) for key in keys if key in data and not _is_json_object(data[key])]
    return problems


def _not_json(key: str) -> FieldError:
    return FieldError.invalid(_DATA.key(key), "<secret contents redacted>", "must be a JSON object")


def _is_json_object(value: str | None) -> bool:
    try:
        return isinstance(msgspec.json.decode(base64.b64decode(value or "", validate=True)), dict)
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError):
        return False
