"""TokenRequest: issues a token of a service account. TokenReview: verifies a token.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/serviceaccount/storage/token.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/authentication/tokenreview/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/authentication/validation/validation.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupKind, GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time
from kube_fairlead.base.clock import Clock
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.security.tokens import Lookup, ServiceAccountTokens, TokenBinding, VerifiedToken

__all__ = ["TokenRequests", "review_token"]


_KIND = GroupKind("authentication.k8s.io", "TokenRequest")
_DEFAULT_SECONDS = 3600
_MIN_SECONDS = 600
_MAX_SECONDS = 2**32
# Kubelets request exactly this time for the token volume of a pod. Old clients do not read the file again, so such
# a token is valid for a year, and its use after the requested time only causes a warning.
_WARN_ONLY_SECONDS = 3607
_EXTENDED_SECONDS = 365 * 24 * 60 * 60


class TokenRequests:
    """Answers `serviceaccounts/<name>/token`."""

    def __init__(self, tokens: ServiceAccountTokens, lookup: Lookup, clock: Clock) -> None:
        self._tokens = tokens
        self._lookup = lookup
        self._clock = clock

    def create(self, namespace: str, name: str, body: Json) -> Json:
        """Return the TokenRequest with its token; the audit log records its `credential_id`."""
        metadata, spec = body.get("metadata") or {}, body.get("spec") or {}
        self._check_identity(namespace, name, metadata)
        account = self._found("serviceaccounts", namespace, name)
        uid = account["metadata"]["uid"]
        if metadata.get("uid") and metadata["uid"] != uid:
            raise errors.conflict(
                GroupResource(_KIND.group, _KIND.kind),
                name,
                f"the UID in the token request ({metadata['uid']}) does not match "
                f"the UID of the service account ({uid})",
            )
        audiences = list(spec.get("audiences") or self._tokens.audiences)
        seconds = spec.get("expirationSeconds")
        seconds = _DEFAULT_SECONDS if seconds is None else seconds
        self._check_seconds(seconds)
        binding = self._binding(namespace, name, spec.get("boundObjectRef"))
        now = self._clock.now()
        lives, warns = seconds, 0
        if binding.pod is not None and seconds == _WARN_ONLY_SECONDS and set(audiences) <= set(self._tokens.audiences):
            lives, warns = _EXTENDED_SECONDS, seconds
        issued = self._tokens.issue(account, audiences, lives, binding, warn_after_seconds=warns)
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                **metadata,
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "creationTimestamp": format_time(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {
                "token": issued.token,
                "expirationTimestamp": format_time(now + dt.timedelta(seconds=seconds)),
            },
        }

    def _found(self, resource: str, namespace: str, name: str) -> Json:
        found = self._lookup(resource, namespace, name)
        if found is None:
            raise errors.not_found(GroupResource("", resource), name)
        return found

    @staticmethod
    def _check_identity(namespace: str, name: str, metadata: Json) -> None:
        for field, wanted in (("name", name), ("namespace", namespace)):
            if metadata.get(field) and metadata[field] != wanted:
                detail = f"must match the service account {field} if specified"
                problem = FieldError.invalid(FieldPath("metadata", field), metadata[field], detail)
                raise errors.invalid(_KIND, name, [problem])

    @staticmethod
    def _check_seconds(seconds: Any) -> None:
        path = FieldPath("spec", "expirationSeconds")
        if isinstance(seconds, bool) or not isinstance(seconds, int):
            raise errors.invalid(_KIND, "", [FieldError.type_invalid(path, seconds, "must be a whole number")])
        if seconds < _MIN_SECONDS:
            detail = "may not specify a duration less than 10 minutes"
        elif seconds > _MAX_SECONDS:
            detail = "may not specify a duration larger than 2^32 seconds"
        else:
            return
        raise errors.invalid(_KIND, "", [FieldError.invalid(path, seconds, detail)])

    def _binding(self, namespace: str, account: str, reference: Any) -> TokenBinding:
        if not isinstance(reference, dict):
            return TokenBinding()
        group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if group or kind not in {"Pod", "Node", "Secret"}:
            raise errors.BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        bound = self._found(f"{kind.lower()}s", "" if kind == "Node" else namespace, name)
        node: Json | None = None
        if kind == "Pod":
            pod_spec = bound.get("spec") or {}
            if pod_spec.get("serviceAccountName") != account:
                raise errors.BadRequest(
                    f'cannot bind token for serviceaccount "{account}" '
                    "to pod running with different serviceaccount name."
                )
            if node_name := pod_spec.get("nodeName"):
                # A node that does not exist yet is still identified by its name.
                node = self._lookup("nodes", "", node_name) or {"metadata": {"name": node_name}}
        uid = bound["metadata"]["uid"]
        if reference.get("uid") and reference["uid"] != uid:
            raise errors.conflict(
                GroupResource("", kind),
                name,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        match kind:
            case "Pod":
                return TokenBinding(pod=bound, node=node)
            case "Node":
                return TokenBinding(node=bound)
            case _:
                return TokenBinding(secret=bound)


def review_token(
    body: Json, authenticate: Callable[[str, Sequence[str]], VerifiedToken | None], default_audiences: Sequence[str]
) -> Json:
    """Return the TokenReview with its result. The text of an exception of `authenticate` may be shown."""
    spec = body.get("spec") or {}
    token = spec.get("token")
    if not token or not isinstance(token, str):
        raise errors.BadRequest("token is required for TokenReview in authentication")
    audiences = spec.get("audiences") or list(default_audiences)
    status: Json = {"user": {}}
    try:
        verified = authenticate(token, audiences)
    except errors.Unauthorized as error:
        status["error"] = error.message
    else:
        if verified is None:
            status["error"] = "invalid bearer token"
        else:
            status = {"authenticated": True, "user": _described(verified.user), "audiences": list(verified.audiences)}
    return {**body, "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}


def _described(user: UserInfo) -> Json:
    described: Json = {"username": user.name}
    if user.uid:
        described["uid"] = user.uid
    if user.groups:
        described["groups"] = list(user.groups)
    if user.extra:
        described["extra"] = {key: list(values) for key, values in user.extra.items()}
    return described
