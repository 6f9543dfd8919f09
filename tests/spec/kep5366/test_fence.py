"""Beyond KEP-5366: "a ValidatingAdmissionPolicy that warns when a controller that is not the leader sends a write
request", made enforceable. The policy itself, on both control planes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kube_fairlead.election import Lock
from kube_fairlead.election.fence import FenceMode, fence_manifests
from kube_fairlead.election.guard import FENCE_MARK
from kube_fairlead_lab.testing.manifests import config_map, pod
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi

Json = dict[str, Any]
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
ACCOUNT = "manager"

Fence = Callable[[FenceMode], Awaitable[None]]


class Pods:
    """Pods of the managers' service account, and their tokens."""

    def __init__(self, api: RawApi, namespace: str, stack: contextlib.AsyncExitStack) -> None:
        self._api = api
        self._namespace = namespace
        self._stack = stack

    async def start(self, name: str) -> tuple[RawApi, str]:
        """A client with the token of a new pod, and the pod's uid."""
        body = pod(name, spec={"serviceAccountName": ACCOUNT})
        made = (await self._api.post(f"/api/v1/namespaces/{self._namespace}/pods", body)).expect(201)
        uid: str = made["metadata"]["uid"]
        reference = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
        asked = (
            await self._api.post(
                f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{ACCOUNT}/token",
                {"spec": {"boundObjectRef": reference, "expirationSeconds": 3600}},
            )
        ).expect(201)
        token: str = asked["status"]["token"]
        access = replace(self._api.access, token=token, certificate_file=None, key_file=None)
        return await self._stack.enter_async_context(RawApi(access)), uid


@pytest.fixture
async def pods(api: RawApi, namespace: str, unique_name: Callable[[str], str]) -> AsyncIterator[Pods]:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    (await api.post(accounts, {"metadata": {"name": ACCOUNT}})).expect(201)
    name = unique_name("managers")
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": ACCOUNT}],
    }
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    (await api.post(bindings, binding)).expect(201)
    async with contextlib.AsyncExitStack() as stack:
        yield Pods(api, namespace, stack)
    (await api.delete(f"{bindings}/{name}")).expect(200)


@pytest.fixture
def lock(namespace: str) -> Lock:
    return Lock(namespace, "managers")


@pytest.fixture
async def fence(api: RawApi, namespace: str, lock: Lock, pods: Pods) -> AsyncIterator[Fence]:
    numbers = itertools.count()

    async def fence(mode: FenceMode) -> None:
        for manifest in fence_manifests(lock, service_accounts=[(namespace, ACCOUNT)], mode=mode):
            resource = {
                "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
                "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
            }[manifest["kind"]]
            (await api.post(f"{REGISTRATION}/{resource}", manifest)).expect(201)
        # A new policy is in force a moment after it was made; a pod that never leads shows when.
        await hold(api, lock, "nobody")
        probe, _ = await pods.start(f"probe-{next(numbers)}")
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        await probe.poll(
            maps, lambda got: got.code != 201 or "Warning" in got.headers, config_map("probe"), dryRun="All"
        )

    yield fence
    await unfence(api, lock)


async def unfence(api: RawApi, lock: Lock) -> None:
    for resource in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        (await api.delete(f"{REGISTRATION}/{resource}/fence.{lock.namespace}.{lock.name}.fairlead.dev")).expect(200)


async def hold(api: RawApi, lock: Lock, holder: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{lock.namespace}/leases"
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    got = await api.patch(f"{path}/{lock.name}", {"spec": spec})
    if got.code == 404:
        got = await api.post(path, {"metadata": {"name": lock.name}, "spec": spec})
    got.expect(200, 201)


async def until_let_through(client: RawApi, namespace: str) -> None:
    """The server follows the Lease by a watch: wait until it has seen this one."""
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    await client.poll(maps, lambda got: got.code == 201, config_map("let-through"), dryRun="All")


def said(answer: Answer) -> str:
    message: str = answer.expect(403)["message"]
    return message


async def test_only_the_holder_writes(api: RawApi, namespace: str, lock: Lock, pods: Pods, fence: Fence) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    (first, first_uid), (second, second_uid) = await pods.start("one"), await pods.start("two")
    await fence(FenceMode.DENY)
    await hold(first, lock, f"one_{first_uid}_abcde")
    await until_let_through(first, namespace)
    (await first.post(maps, config_map("x"))).expect(201)
    refused = said(await second.post(maps, config_map("y")))
    assert f"pod two {FENCE_MARK} {lock}" in refused
    # The lease changes hands: so do the rights, for every verb.
    await hold(second, lock, f"two_{second_uid}_abcde")
    await until_let_through(second, namespace)
    (await second.patch(f"{maps}/x", {"data": {"by": "two"}})).expect(200)
    for refusal in (
        await first.patch(f"{maps}/x", {"data": {"by": "one"}}),
        await first.put(f"{maps}/x", config_map("x")),
        await first.delete(f"{maps}/x"),
        await first.delete(maps),
        await first.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token", {"spec": {}}),
    ):
        assert FENCE_MARK in said(refusal)
    (await first.get(f"{maps}/x")).expect(200)
    # Released: nobody again.
    await hold(second, lock, "")
    await second.poll(maps, lambda got: got.code == 403, config_map("z"), dryRun="All")
    assert (await api.get(f"{maps}/x")).expect(200)["data"] == {"by": "two"}


async def test_a_fence_that_is_put_back_is_one_again(
    api: RawApi, namespace: str, lock: Lock, pods: Pods, fence: Fence
) -> None:
    """kube-apiserver would see no Lease any more, were it not for the anchor that `fairlead install` brings with it."""
    client, uid = await pods.start("one")
    await fence(FenceMode.DENY)
    await unfence(api, lock)
    await until_let_through(client, namespace)
    await fence(FenceMode.DENY)
    await hold(client, lock, f"one_{uid}_abcde")
    await until_let_through(client, namespace)


async def test_a_deleted_lease_locks_nobody_out(
    api: RawApi, namespace: str, lock: Lock, pods: Pods, fence: Fence
) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    client, _ = await pods.start("one")
    await fence(FenceMode.DENY)
    await api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lock.name}")
    await until_let_through(client, namespace)
    (await api.post(maps, config_map("x"))).expect(201)


async def test_a_pod_of_the_same_name_is_another_pod(namespace: str, lock: Lock, pods: Pods, fence: Fence) -> None:
    """A StatefulSet's replacement has the name of the frozen pod that it replaces, but not its uid."""
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    client, uid = await pods.start("one")
    await fence(FenceMode.DENY)
    await hold(client, lock, f"one_{uid}_abcde")
    await until_let_through(client, namespace)
    await hold(client, lock, "one_00000000-0000-0000-0000-000000000000_abcde")
    await client.poll(maps, lambda got: got.code == 403, config_map("x"), dryRun="All")


async def test_an_identity_without_uid_is_compared_by_name(
    namespace: str, lock: Lock, pods: Pods, fence: Fence
) -> None:
    """As client-go makes it: the host's name, which is the pod's, and a UUID."""
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    client, _ = await pods.start("one")
    await fence(FenceMode.DENY)
    await hold(client, lock, "one_0a1b2c3d-0000-0000-0000-000000000000")
    await until_let_through(client, namespace)
    (await client.post(maps, config_map("x"))).expect(201)


async def test_leases_and_events_are_exempt_and_others_are_not_concerned(
    api: RawApi, namespace: str, lock: Lock, pods: Pods, fence: Fence
) -> None:
    client, uid = await pods.start("one")
    await fence(FenceMode.DENY)
    await hold(api, lock, "somebody_else")
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Lease", "namespace": namespace, "name": lock.name},
        "reason": "LeaderElection",
    }
    (await client.post(f"/api/v1/namespaces/{namespace}/events", event)).expect(201)
    await hold(client, lock, f"one_{uid}_abcde")
    # Another Lease is not the one that is exempt; another user is not a manager.
    await hold(api, lock, "somebody_else")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    await client.poll(leases, lambda got: got.code == 403, {"metadata": {"name": "other"}}, dryRun="All")
    (await api.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map("x"))).expect(201)


async def test_a_warning_lets_it_through(namespace: str, lock: Lock, pods: Pods, fence: Fence) -> None:
    client, _ = await pods.start("one")
    await fence(FenceMode.WARN)
    got = await client.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map("x"))
    got.expect(201)
    assert FENCE_MARK in got.headers["Warning"]
