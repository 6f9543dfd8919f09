from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.security.pki.jose import from_base64url
from kube_fairlead_apiserver.security.pki.signing_key import SigningKey
from kube_fairlead_apiserver.security.token_requests import TokenRequests, review_token
from kube_fairlead_apiserver.security.tokens import ServiceAccountTokens, VerifiedToken

Json = dict[str, Any]

OBJECTS: dict[tuple[str, str, str], Json] = {
    ("serviceaccounts", "ns", "robot"): {"metadata": {"name": "robot", "namespace": "ns", "uid": "u1"}},
    ("pods", "ns", "web"): {
        "metadata": {"name": "web", "namespace": "ns", "uid": "u2"},
        "spec": {"serviceAccountName": "robot", "nodeName": "n1"},
    },
    ("pods", "ns", "other"): {
        "metadata": {"name": "other", "namespace": "ns", "uid": "u3"},
        "spec": {"serviceAccountName": "default"},
    },
    ("secrets", "ns", "s"): {"metadata": {"name": "s", "namespace": "ns", "uid": "u4"}},
    ("nodes", "", "n1"): {"metadata": {"name": "n1", "uid": "u5"}},
}


@pytest.fixture
def requests(tmp_path: Path) -> TokenRequests:
    def lookup(resource: str, namespace: str, name: str) -> Json | None:
        return OBJECTS.get((resource, namespace, name))

    clock = VirtualClock(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    key = SigningKey.open(tmp_path / "sa.key")
    tokens = ServiceAccountTokens([key], lookup, clock, RandomIds(SeededRandomness(1)), issuer="https://issuer")
    return TokenRequests(tokens, lookup, clock)


def private(answer: Json) -> Json:
    claims = json.loads(from_base64url(answer["status"]["token"].split(".")[1]))
    result: Json = claims["kubernetes.io"] | {"aud": claims["aud"], "lives": claims["exp"] - claims["iat"]}
    return result


def reference(kind: str, name: str, **more: Any) -> Json:
    return {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, **more}}}


def test_defaults(requests: TokenRequests) -> None:
    answer = requests.create("ns", "robot", {})
    assert answer["metadata"] == {
        "name": "robot",
        "namespace": "ns",
        "uid": "u1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    assert answer["spec"]["audiences"] == ["https://issuer"]
    assert answer["status"]["expirationTimestamp"] == "2026-01-01T01:00:00Z"
    claims = private(answer)
    assert claims["lives"] == 3600
    assert "pod" not in claims


def test_bound(requests: TokenRequests) -> None:
    pod = private(requests.create("ns", "robot", reference("Pod", "web", uid="u2")))
    assert (pod["pod"], pod["node"]) == ({"name": "web", "uid": "u2"}, {"name": "n1", "uid": "u5"})
    assert private(requests.create("ns", "robot", reference("Secret", "s")))["secret"] == {"name": "s", "uid": "u4"}
    assert private(requests.create("ns", "robot", reference("Node", "n1")))["node"] == {"name": "n1", "uid": "u5"}


def test_the_kubelets_volume_token_lives_longer_and_warns(requests: TokenRequests) -> None:
    body = reference("Pod", "web")
    body["spec"]["expirationSeconds"] = 3607
    answer = requests.create("ns", "robot", body)
    claims = private(answer)
    assert claims["lives"] == 365 * 24 * 3600
    assert "warnafter" in claims
    assert answer["status"]["expirationTimestamp"] == "2026-01-01T01:00:07Z"
    body["spec"]["audiences"] = ["elsewhere"]
    assert private(requests.create("ns", "robot", body))["lives"] == 3607


@pytest.mark.parametrize(
    ("name", "body", "error", "message"),
    [
        ("ghost", {}, errors.NotFound, 'serviceaccounts "ghost" not found'),
        ("robot", {"metadata": {"name": "x"}}, errors.Invalid, "must match the service account name if specified"),
        ("robot", {"metadata": {"namespace": "x"}}, errors.Invalid, "must match the service account namespace"),
        ("robot", {"metadata": {"uid": "x"}}, errors.Conflict, "does not match the UID of the service account (u1)"),
        ("robot", {"spec": {"expirationSeconds": 599}}, errors.Invalid, "less than 10 minutes"),
        ("robot", {"spec": {"expirationSeconds": 2**32 + 1}}, errors.Invalid, "larger than 2^32 seconds"),
        ("robot", {"spec": {"expirationSeconds": "x"}}, errors.Invalid, "must be a whole number"),
        ("robot", reference("Pod", "ghost"), errors.NotFound, 'pods "ghost" not found'),
        ("robot", reference("Pod", "other"), errors.BadRequest, "to pod running with different serviceaccount name."),
        ("robot", reference("Pod", "web", uid="x"), errors.Conflict, "does not match the UID in record"),
        ("robot", reference("ConfigMap", "c"), errors.BadRequest, "cannot bind token to object of type /v1, Kind="),
    ],
)
def test_refusals(requests: TokenRequests, name: str, body: Json, error: type[errors.ApiError], message: str) -> None:
    with pytest.raises(error) as caught:
        requests.create("ns", name, body)
    assert message in caught.value.message


def test_review() -> None:
    def authenticate(token: str, audiences: Sequence[str]) -> VerifiedToken | None:
        if token == "bad":
            raise errors.Unauthorized("service account token has expired")
        if token != "good":
            return None
        return VerifiedToken(UserInfo("u", uid="1", groups=("g",), extra={"k": ("v",)}), tuple(audiences))

    def status(token: str, **spec: Any) -> Json:
        review = review_token({"spec": {"token": token, **spec}}, authenticate, ["api"])
        assert review["kind"] == "TokenReview"
        answer: Json = review["status"]
        return answer

    assert status("good") == {
        "authenticated": True,
        "user": {"username": "u", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}},
        "audiences": ["api"],
    }
    assert status("good", audiences=["x"])["audiences"] == ["x"]
    assert status("bad") == {"user": {}, "error": "service account token has expired"}
    assert status("unknown") == {"user": {}, "error": "invalid bearer token"}
    with pytest.raises(errors.BadRequest, match="token is required for TokenReview in authentication"):
        review_token({}, authenticate, [])
