"""History that the server has let go of: 410, and the way out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from kube_fairlead_lab.testing import (
    ControlPlane,
    EmbeddedControlPlane,
    EmbeddedOptions,
    KubeControlPlane,
    KubeOptions,
    require_real,
)
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.manifests import secret
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi

PATH = "/api/v1/namespaces/default/secrets"
FORGET = "--etcd-compaction-interval=1s"


@pytest.fixture(scope="module", params=["embedded", pytest.param("kube", marks=pytest.mark.kube)])
def forgetful_control_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A server that remembers a second or two of history, not five to ten minutes."""
    folder = tmp_path_factory.mktemp("forgetful")
    if request.param == "embedded":
        yield from watch_over(request.config, EmbeddedControlPlane(folder, EmbeddedOptions(flags=[FORGET])))
        return
    missing = KubeBinaries.find().missing("etcd", "kube-apiserver")
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    # Its cache would remember what etcd has forgotten.
    options = KubeOptions(apiserver_flags=[FORGET, "--watch-cache=false"])
    yield from watch_over(request.config, KubeControlPlane(folder, options))


@pytest.fixture
async def api(forgetful_control_plane: ControlPlane) -> AsyncIterator[RawApi]:
    async with RawApi(forgetful_control_plane.access()) as session:
        yield session


@pytest.fixture
async def names(api: RawApi) -> AsyncIterator[list[str]]:
    names = [f"s{n}" for n in range(5)]
    for name in names:
        (await api.post(PATH, secret(name))).expect(201)
    yield names
    (await api.delete(PATH)).expect(200)


async def forgotten(api: RawApi, version: str) -> None:
    """Write until the server no longer knows the world as it was then."""
    count = 0
    while (await api.get(PATH, resourceVersion=version, resourceVersionMatch="Exact")).code != 410:
        count += 1
        (await api.patch(f"{PATH}/s0", {"metadata": {"labels": {"count": str(count)}}})).expect(200)


async def test_a_list_of_then(api: RawApi, names: list[str]) -> None:
    version = (await api.get(PATH)).expect(200)["metadata"]["resourceVersion"]
    await forgotten(api, version)
    status = (await api.get(PATH, resourceVersion=version, resourceVersionMatch="Exact")).expect(410)
    assert status["reason"] == "Expired"
    assert status["message"] == "The resourceVersion for the provided list is too old."


async def test_a_page_of_then_offers_a_new_token(api: RawApi, names: list[str]) -> None:
    first = (await api.get(PATH, limit=2)).expect(200)
    token = first["metadata"]["continue"]
    await forgotten(api, first["metadata"]["resourceVersion"])
    status = (await api.get(PATH, limit=2, **{"continue": token})).expect(410)
    assert status["reason"] == "Expired"
    told = "The provided continue parameter is too old to display a consistent list result. "
    assert status["message"].startswith(told)  # what follows explains it, in each server's own words
    rest = (await api.get(PATH, limit=10, **{"continue": status["metadata"]["continue"]})).expect(200)
    assert [item["metadata"]["name"] for item in rest["items"]] == names[2:]


async def test_a_watch_from_then(api: RawApi, names: list[str]) -> None:
    version = (await api.get(PATH)).expect(200)["metadata"]["resourceVersion"]
    await forgotten(api, version)
    async with api.watch(PATH, resourceVersion=version) as watch:
        event = await watch.next()
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
