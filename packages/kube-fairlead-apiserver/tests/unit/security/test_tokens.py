from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.api.time import format_time
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_apiserver.security.pki.jose import base64url, from_base64url
from kube_fairlead_apiserver.security.pki.signing_key import SigningKey
from kube_fairlead_apiserver.security.tokens import InvalidToken, ServiceAccountTokens, TokenBinding

Json = dict[str, Any]

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ISSUER = "https://kubernetes.default.svc"


def named(name: str, namespace: str = "default", **more: Any) -> Json:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **more}}


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock(START)
        self.key = SigningKey.open(folder / "sa.key")
        self.objects: dict[tuple[str, str, str], Json] = {
            ("serviceaccounts", "default", "robot"): named("robot"),
            ("pods", "default", "web"): named("web"),
            ("secrets", "default", "token"): named("token"),
            ("nodes", "", "n1"): named("n1", ""),
        }
        self.tokens = self.make([self.key])

    def make(self, keys: list[SigningKey], **options: Any) -> ServiceAccountTokens:
        ids = RandomIds(SeededRandomness(1))
        return ServiceAccountTokens(keys, self.lookup, self.clock, ids, **({"issuer": ISSUER} | options))

    def lookup(self, resource: str, namespace: str, name: str) -> Json | None:
        return self.objects.get((resource, namespace, name))

    def issue(self, binding: TokenBinding | None = None, seconds: int = 3600, **options: Any) -> str:
        account = self.objects["serviceaccounts", "default", "robot"]
        return self.tokens.issue(account, options.pop("audiences", [ISSUER]), seconds, binding, **options).token

    async def later(self, seconds: float) -> None:
        await self.clock.advance(seconds)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def claims_of(token: str) -> Json:
    claims: Json = json.loads(from_base64url(token.split(".")[1]))
    return claims


def test_claims_are_kubernetes_own(cluster: Cluster) -> None:
    binding = TokenBinding(pod=cluster.objects["pods", "default", "web"], node=cluster.objects["nodes", "", "n1"])
    issued = cluster.tokens.issue(
        cluster.objects["serviceaccounts", "default", "robot"], ["a", "b"], 600, binding, warn_after_seconds=60
    )
    header = json.loads(from_base64url(issued.token.split(".")[0]))
    assert header == {"alg": "ES256", "kid": cluster.key.key_id}
    claims = claims_of(issued.token)
    now = int(START.timestamp())
    assert claims == {
        "aud": ["a", "b"],
        "exp": now + 600,
        "iat": now,
        "nbf": now,
        "iss": ISSUER,
        "jti": claims["jti"],
        "sub": "system:serviceaccount:default:robot",
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": {"name": "robot", "uid": "uid-robot"},
            "pod": {"name": "web", "uid": "uid-web"},
            "node": {"name": "n1", "uid": "uid-n1"},
            "warnafter": now + 60,
        },
    }
    assert issued.credential_id == f"JTI={claims['jti']}"


def test_verify(cluster: Cluster) -> None:
    binding = TokenBinding(pod=cluster.objects["pods", "default", "web"], node=cluster.objects["nodes", "", "n1"])
    token = cluster.issue(binding)
    for _ in range(2):  # the second time from memory
        verified = cluster.tokens.verify(token)
        assert verified is not None
        assert verified.audiences == (ISSUER,)
        assert verified.user.name == "system:serviceaccount:default:robot"
        assert verified.user.uid == "uid-robot"
        assert verified.user.groups == ("system:serviceaccounts", "system:serviceaccounts:default")
        assert verified.user.extra == {
            "authentication.kubernetes.io/pod-name": ("web",),
            "authentication.kubernetes.io/pod-uid": ("uid-web",),
            "authentication.kubernetes.io/node-name": ("n1",),
            "authentication.kubernetes.io/node-uid": ("uid-n1",),
            "authentication.kubernetes.io/credential-id": (f"JTI={claims_of(token)['jti']}",),
        }


@pytest.mark.parametrize("token", ["", "x", "a.b", "a.b.c", "é.é.é", "....", "e30.e30.e30", '{"a":1}'])
def test_other_tokens_are_not_ours(cluster: Cluster, token: str) -> None:
    assert cluster.tokens.verify(token) is None


def test_a_token_of_another_issuer_is_not_ours(cluster: Cluster) -> None:
    assert cluster.make([cluster.key], issuer="https://other").verify(cluster.issue()) is None


def test_forged_tokens(cluster: Cluster, tmp_path: Path) -> None:
    header, claims, signature = cluster.issue().split(".")
    changed = base64url(json.dumps(claims_of(f".{claims}.") | {"sub": "root"}).encode())
    with pytest.raises(InvalidToken, match="cryptographic"):
        cluster.tokens.verify(f"{header}.{changed}.{signature}")
    for algorithm in ("none", "HS256", "RS256"):
        forged = base64url(json.dumps({"alg": algorithm, "kid": cluster.key.key_id}).encode())
        with pytest.raises(InvalidToken, match="cryptographic"):
            cluster.tokens.verify(f"{forged}.{claims}.{signature}")
    stranger = cluster.make([SigningKey.open(tmp_path / "stranger.key")])
    account = cluster.objects["serviceaccounts", "default", "robot"]
    with pytest.raises(InvalidToken, match="no keys found"):
        cluster.tokens.verify(stranger.issue(account, [ISSUER], 600).token)


def test_an_old_key_still_verifies(cluster: Cluster, tmp_path: Path) -> None:
    token = cluster.issue()
    both = cluster.make([SigningKey.open(tmp_path / "new.key"), cluster.key])
    assert both.verify(token) is not None
    assert len(both.jwks()["keys"]) == 2
    headless = base64url(b'{"alg":"ES256"}')
    with pytest.raises(InvalidToken, match="cryptographic"):
        both.verify(".".join([headless, *token.split(".")[1:]]))


def test_audiences(cluster: Cluster) -> None:
    token = cluster.issue(audiences=["vault", "db"])
    with pytest.raises(InvalidToken) as caught:
        cluster.tokens.verify(token)
    assert str(caught.value) == (f'token audiences ["vault" "db"] is invalid for the target audiences ["{ISSUER}"]')
    verified = cluster.tokens.verify(token, ["db", "other"])
    assert verified is not None
    assert verified.audiences == ("db",)


async def test_time(cluster: Cluster) -> None:
    token = cluster.issue(seconds=600)
    await cluster.later(650)
    assert cluster.tokens.verify(token) is not None  # within the leeway
    await cluster.later(20)
    with pytest.raises(InvalidToken, match="service account token has expired"):
        cluster.tokens.verify(token)
    future = cluster.issue()
    cluster.tokens._clock = VirtualClock(START)
    with pytest.raises(InvalidToken, match="service account token is not valid yet"):
        cluster.tokens.verify(future)


@pytest.mark.parametrize(
    ("binding", "key", "kind"),
    [
        ("pod", ("pods", "default", "web"), "pod"),
        ("secret", ("secrets", "default", "token"), "secret"),
        ("node", ("nodes", "", "n1"), "node"),
    ],
)
def test_a_token_dies_with_what_it_is_bound_to(cluster: Cluster, binding: str, key: Any, kind: str) -> None:
    bound = cluster.objects[key]
    token = cluster.issue(TokenBinding(**{binding: bound}))
    assert cluster.tokens.verify(token) is not None
    cluster.objects[key] = {"metadata": bound["metadata"] | {"uid": "another"}}
    with pytest.raises(InvalidToken) as caught:
        cluster.tokens.verify(token)
    claim = f"service account {kind} ref claim (uid-{key[2]})"
    assert str(caught.value) == f"{kind} UID (another) does not match {claim}"
    now = cluster.clock.now()
    cluster.objects[key] = {"metadata": bound["metadata"] | {"deletionTimestamp": format_time(now)}}
    assert cluster.tokens.verify(token) is not None
    gone = format_time(now - dt.timedelta(seconds=61))
    cluster.objects[key] = {"metadata": bound["metadata"] | {"deletionTimestamp": gone}}
    with pytest.raises(InvalidToken, match="service account token has been invalidated"):
        cluster.tokens.verify(token)
    del cluster.objects[key]
    with pytest.raises(InvalidToken, match="service account token has been invalidated"):
        cluster.tokens.verify(token)


def test_a_token_dies_with_its_service_account(cluster: Cluster) -> None:
    token, key = cluster.issue(), ("serviceaccounts", "default", "robot")
    cluster.objects[key] = named("robot", uid="new")
    with pytest.raises(InvalidToken, match=r"service account UID \(new\) does not match claim \(uid-robot\)"):
        cluster.tokens.verify(token)
    del cluster.objects[key]
    with pytest.raises(InvalidToken, match='serviceaccounts "robot" not found'):
        cluster.tokens.verify(token)


def test_a_node_beside_a_pod_is_only_told(cluster: Cluster) -> None:
    binding = TokenBinding(pod=cluster.objects["pods", "default", "web"], node={"metadata": {"name": "gone"}})
    verified = cluster.tokens.verify(cluster.issue(binding))
    assert verified is not None
    assert verified.user.extra["authentication.kubernetes.io/node-name"] == ("gone",)
    assert "authentication.kubernetes.io/node-uid" not in verified.user.extra


def test_discovery(cluster: Cluster) -> None:
    assert cluster.tokens.discovery("https://host/openid/v1/jwks") == {
        "issuer": ISSUER,
        "jwks_uri": "https://host/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    assert cluster.tokens.jwks() == {"keys": [cluster.key.jwk()]}
