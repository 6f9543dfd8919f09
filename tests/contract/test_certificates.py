"""Requests for certificates: who may approve and sign them, and what they cannot be for."""

from __future__ import annotations

import base64
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
API_CLIENTS = "kubernetes.io/kube-apiserver-client"
SIGNERS = (API_CLIENTS, "kubernetes.io/kubelet-serving", "example.com/a", "example.com/b")
GRANTS = (*SIGNERS, "kubernetes.io/*", "example.com/*", "*", "example.com", "example.com/")
APPROVED = {"type": "Approved", "status": "True", "reason": "Tested", "message": "by a test"}
FAILED = {"type": "Failed", "status": "True", "reason": "Tested", "message": "by a test"}


def pem_request(*organizations: str, common_name: str = "somebody") -> str:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, value) for value in organizations]
    names.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def csr(name: str, signer: str, request: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"signerName": signer, "request": request, "usages": ["client auth"]},
    }


@pytest.fixture
async def alice(control_plane: ControlPlane, api: RawApi, unique_name: Callable[[str], str]) -> AsyncIterator[RawApi]:
    """May write every part of requests, and has no word on any signer."""
    async with RawApi(control_plane.access(unique_name("alice"), ["testers"])) as session:
        resources = [f"certificatesigningrequests{part}" for part in ("", "/approval", "/status")]
        await grant(api, session.access.user, {"resources": resources, "verbs": ["get", "create", "update", "patch"]})
        await session.poll(f"{CSRS}/none", lambda answer: answer.code == 404)
        yield session


async def grant(api: RawApi, user: str, rule: dict[str, Any], suffix: str = "") -> None:
    name = f"{user}{suffix}"
    role = {"metadata": {"name": name}, "rules": [{"apiGroups": ["certificates.k8s.io"], **rule}]}
    (await api.post(f"{RBAC}/clusterroles", role)).expect(201)
    binding = {
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": name},
    }
    (await api.post(f"{RBAC}/clusterrolebindings", binding)).expect(201)


@pytest.fixture
async def made(api: RawApi, unique_name: Callable[[str], str]) -> dict[str, str]:
    """A request to each signer, by signer."""
    names = {signer: unique_name("csr") for signer in SIGNERS}
    request = pem_request("testers")
    for signer, name in names.items():
        (await api.post(CSRS, csr(name, signer, request))).expect(201)
    return names


def approve(session: RawApi, name: str) -> Any:
    return session.patch(f"{CSRS}/{name}/approval", {"status": {"conditions": [APPROVED]}}, dryRun="All")


def sign(session: RawApi, name: str) -> Any:
    return session.patch(f"{CSRS}/{name}/status", {"status": {"conditions": [FAILED]}}, dryRun="All")


async def test_without_a_word_on_the_signer(alice: RawApi, made: dict[str, str]) -> None:
    for signer, name in made.items():
        for act, verb in ((approve, "approve"), (sign, "sign")):
            status = (await act(alice, name)).expect(403)
            assert status["message"] == (
                f'certificatesigningrequests.certificates.k8s.io "{name}" is forbidden: '
                f'user not permitted to {verb} requests with signerName "{signer}"'
            )
            assert status["details"] == {
                "name": name,
                "group": "certificates.k8s.io",
                "kind": "certificatesigningrequests",
            }


@pytest.mark.parametrize("granted", GRANTS)
async def test_who_may_approve_and_sign(api: RawApi, alice: RawApi, made: dict[str, str], granted: str) -> None:
    """A right to one signer, or to all of a domain; each verb for itself."""
    reached = {signer for signer in SIGNERS if granted in {signer, f"{signer.partition('/')[0]}/*"}}
    for (verb, act), (other, other_act) in itertools.permutations((("approve", approve), ("sign", sign))):
        user = alice.access.user
        await grant(api, user, {"resources": ["signers"], "resourceNames": [granted], "verbs": [verb]}, f"-{verb}")
        review = {
            "spec": {
                "user": user,
                "resourceAttributes": {
                    "group": "certificates.k8s.io",
                    "resource": "signers",
                    "verb": verb,
                    "name": granted,
                },
            }
        }
        reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        await api.poll(reviews, lambda seen: seen.json["status"]["allowed"], review)
        codes = {signer: (await act(alice, name)).code for signer, name in made.items()}
        assert codes == {signer: 200 if signer in reached else 403 for signer in SIGNERS}
        if verb == "approve":  # the other one is granted in the next round only
            assert {(await other_act(alice, name)).code for name in made.values()} == {403}, other


async def test_a_write_that_decides_nothing_needs_no_word(alice: RawApi, made: dict[str, str]) -> None:
    name = made[API_CLIENTS]
    labelled = {"metadata": {"annotations": {"a": "b"}}}
    (await alice.patch(f"{CSRS}/{name}/status", labelled)).expect(200)
    (await alice.patch(f"{CSRS}/{name}/approval", labelled)).expect(403)


ORGANIZATIONS: list[Sequence[str]] = [
    ["system:masters"],
    ["testers", "system:masters"],
    ["system:masters", "testers"],
    ["system:nodes"],
    ["system:masters "],
    ["System:masters"],
    [],
]


@pytest.mark.parametrize("organizations", ORGANIZATIONS)
async def test_nobody_asks_for_everything(
    api: RawApi, unique_name: Callable[[str], str], organizations: Sequence[str]
) -> None:
    name, request = unique_name("csr"), pem_request(*organizations)
    answer: Answer = await api.post(CSRS, csr(name, API_CLIENTS, request), dryRun="All")
    if "system:masters" in organizations:
        assert answer.expect(403)["message"] == (
            f'certificatesigningrequests.certificates.k8s.io "{name}" is forbidden: '
            "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        )
    else:
        answer.expect(201)
    (await api.post(CSRS, csr(name, "example.com/a", request), dryRun="All")).expect(201)


async def test_an_approval_changes_conditions_only(api: RawApi, made: dict[str, str]) -> None:
    path = f"{CSRS}/{made[API_CLIENTS]}"
    before = (await api.get(path)).expect(200)
    body = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"signerName": "example.com/a", "request": pem_request("system:masters")},
        "status": {"conditions": [APPROVED], "certificate": "eA=="},
    }
    after = (await api.patch(f"{path}/approval", body)).expect(200)
    assert after["spec"] == before["spec"]
    assert "certificate" not in after["status"]
    assert [one["type"] for one in after["status"]["conditions"]] == ["Approved"]


async def test_a_status_decides_nothing(api: RawApi, made: dict[str, str]) -> None:
    path = f"{CSRS}/{made[API_CLIENTS]}"
    status = (await api.patch(f"{path}/status", {"status": {"conditions": [APPROVED]}})).expect(422)
    (cause,) = status["details"]["causes"]
    assert (cause["field"], cause["message"]) == (
        "status.conditions",
        'Forbidden: updates may not add a condition of type "Approved"',
    )
    (await api.patch(f"{path}/approval", {"status": {"conditions": [APPROVED]}})).expect(200)
    status = (await api.patch(f"{path}/status", {"status": {"conditions": []}})).expect(422)
    assert 'updates may not remove a condition of type "Approved"' in status["message"]
    changed = {**APPROVED, "message": "changed"}
    kept = (await api.patch(f"{path}/status", {"status": {"conditions": [changed]}})).expect(200)
    assert kept["status"]["conditions"][0]["message"] == APPROVED["message"]
    denied = {**APPROVED, "type": "Denied"}
    status = (await api.patch(f"{path}/approval", {"status": {"conditions": [APPROVED, denied]}})).expect(422)
    assert "Approved and Denied conditions are mutually exclusive" in status["message"]


async def test_a_request_that_its_key_did_not_sign(api: RawApi, unique_name: Callable[[str], str]) -> None:
    pem = base64.b64decode(pem_request("testers"))
    lines = pem.decode().strip().splitlines()
    der = bytearray(base64.b64decode("".join(lines[1:-1])))
    der[der.index(b"testers")] = ord("x")
    body = base64.encodebytes(bytes(der)).decode().strip()
    forged = base64.b64encode("\n".join([lines[0], body, lines[-1], ""]).encode()).decode()
    status = (await api.post(CSRS, csr(unique_name("csr"), API_CLIENTS, forged), dryRun="All")).expect(422)
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.request"]
