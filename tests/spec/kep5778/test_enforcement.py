"""Beyond the proposal: the API server itself keeps a manager off nodes that are not its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead.cloud.enforcement import Manager, ccm_manifests
from kube_fairlead_lab.testing.rawhttp import STRATEGIC_PATCH, RawApi
from tests.spec.kep5778.cluster import NODES, WAITING, account_access, apply, create_node, until_refused

Json = dict[str, Any]


@pytest.fixture
async def manager(api: RawApi, unique_name: Callable[[str], str]) -> AsyncIterator[Manager]:
    """The manifests of one manager of `aws` and `aws.edge`, enforced."""
    made = Manager(provider=unique_name("p"), platforms=frozenset({"aws", "aws.edge"}))
    paths = await apply(api, ccm_manifests(made))
    yield made
    for path in reversed(paths):
        (await api.delete(path)).expect(200)


@pytest.fixture
async def ccm(api: RawApi, manager: Manager, unique_name: Callable[[str], str]) -> AsyncIterator[RawApi]:
    """The manager's service account, from when its rights and the policy have taken hold."""
    probe = unique_name("probe")
    await create_node(api, probe, "gce://probe")
    async with RawApi(await account_access(api, manager)) as account:
        await until_refused(account, f"{NODES}/{probe}")
        yield account
    (await api.delete(f"{NODES}/{probe}")).expect(200)


LABEL: Json = {"metadata": {"labels": {"touched": "yes"}}}
CONDITION: Json = {"status": {"conditions": [{"type": "NetworkUnavailable", "status": "False"}]}}

FOREIGN = [
    ("gce://p/z/n", None),
    ("gce://p/z/n", "aws"),
    ("aws-cn://i-1", None),
    ("awsxedge://i-1", None),  # the dot is a dot
    ("AWS://i-1", "aws"),
    ("aws:/i-1", "aws"),
    ("aws://", "aws"),
    ("aws://ünïcode", None),
    ("aws://" + "x" * 4096, None),
    ("xaws://i-1", None),
    ("aws://i-1\ngce://i-2", None),
    ("", "gce"),
    ("", "AWS"),
    ("", None),
    ("", ""),
    ("", "aws"),  # an annotation alone is a claim, and no proof
    ("", "aws.edge"),
]


@pytest.mark.parametrize(("provider_id", "platform"), FOREIGN)
async def test_a_node_that_is_not_its_own_is_out_of_reach(
    api: RawApi, ccm: RawApi, unique_name: Callable[[str], str], provider_id: str, platform: str | None
) -> None:
    name = unique_name("n")
    before = await create_node(api, name, provider_id, platform=platform)
    path = f"{NODES}/{name}"
    for attempt in (
        ccm.patch(path, LABEL),
        ccm.patch(f"{path}/status", CONDITION, STRATEGIC_PATCH),
        ccm.delete(path),
        ccm.patch(path, {"spec": {"taints": []}, **LABEL}),
    ):
        status = (await attempt).expect(403)
        assert "denied request" in status["message"]
        assert f"node {name} belongs to" in status["message"]
    assert (await api.get(path)).json["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    (await api.delete(path)).expect(200)


@pytest.mark.parametrize(
    ("provider_id", "platform"),
    [("aws:///z/i-1", None), ("aws:///z/i-1", "gce"), ("aws.edge://1", None)],
)
async def test_its_own_nodes_are_in_reach(
    api: RawApi, ccm: RawApi, unique_name: Callable[[str], str], provider_id: str, platform: str | None
) -> None:
    name = unique_name("n")
    await create_node(api, name, provider_id, platform=platform)
    path = f"{NODES}/{name}"
    (await ccm.patch(path, LABEL)).expect(200)
    (await ccm.patch(f"{path}/status", CONDITION, STRATEGIC_PATCH)).expect(200)
    (await ccm.delete(path)).expect(200)


@pytest.mark.parametrize("platform", [None, "aws", "aws.edge"])
async def test_a_node_without_an_id_can_be_initialised_and_nothing_else(
    api: RawApi, ccm: RawApi, unique_name: Callable[[str], str], platform: str | None
) -> None:
    name = unique_name("n")
    await create_node(api, name, platform=platform, waiting=True)
    path = f"{NODES}/{name}"
    (await ccm.patch(path, LABEL)).expect(403)
    (await ccm.patch(path, {"spec": {"taints": []}})).expect(403)
    (await ccm.patch(path, {"spec": {"providerID": "gce://1", "taints": []}})).expect(403)
    (await ccm.patch(f"{path}/status", CONDITION, STRATEGIC_PATCH)).expect(403)
    (await ccm.delete(path)).expect(403)
    (await ccm.patch(path, {"spec": {"providerID": "aws:///z/i-1", "taints": []}, **LABEL})).expect(200)
    (await ccm.delete(path)).expect(200)


async def test_an_unknown_node_that_waits_for_nobody_is_not_initialised(
    api: RawApi, ccm: RawApi, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("n")
    await create_node(api, name)
    (await ccm.patch(f"{NODES}/{name}", {"spec": {"providerID": "aws:///z/i-1"}})).expect(403)
    (await api.delete(f"{NODES}/{name}")).expect(200)


async def test_a_node_cannot_be_made_its_own_first(api: RawApi, ccm: RawApi, unique_name: Callable[[str], str]) -> None:
    name = unique_name("n")
    await create_node(api, name, platform="gce", waiting=True)
    annotation = {"metadata": {"annotations": {"cloudprovider.kubernetes.io/platform": "aws"}}}
    (await ccm.patch(f"{NODES}/{name}", annotation)).expect(403)
    claim = {"spec": {"providerID": "aws:///z/i-1", "taints": [WAITING]}}
    (await ccm.patch(f"{NODES}/{name}", claim)).expect(403)
    (await api.delete(f"{NODES}/{name}")).expect(200)


async def test_the_account_has_no_more_rights_than_it_needs(ccm: RawApi, unique_name: Callable[[str], str]) -> None:
    (await ccm.post(NODES, {"metadata": {"name": unique_name("n")}})).expect(403)
    (await ccm.get("/api/v1/secrets")).expect(403)
    (await ccm.get("/api/v1/services")).expect(403)
    (await ccm.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager")).expect(403)


async def test_others_are_not_concerned(api: RawApi, ccm: RawApi, unique_name: Callable[[str], str]) -> None:
    del ccm
    name = unique_name("n")
    await create_node(api, name, "gce://1")
    (await api.patch(f"{NODES}/{name}", LABEL)).expect(200)
    (await api.delete(f"{NODES}/{name}")).expect(200)


def test_without_platforms_there_is_nothing_to_enforce() -> None:
    with pytest.raises(ValueError, match="nothing to enforce"):
        Manager(provider="aws", platforms=frozenset())
    with pytest.raises(ValueError, match="is not a platform"):
        Manager(provider="aws'", platforms=frozenset({"aws"}))
    with pytest.raises(ValueError, match="is not a platform"):
        Manager(provider="aws", platforms=frozenset({"aws')"}))
