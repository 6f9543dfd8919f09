"""Resource versions that the server has forgotten: the real one here, ours in `test_inprocess` on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead_lab.testing import ControlPlane, KubeControlPlane, KubeOptions, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.plugin import watch_over
from tests.contract.client.conftest import CONFIG_MAPS, connect


@pytest.fixture
def forgetful_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A server that forgets history after a second or two instead of five to ten minutes."""
    binaries = KubeBinaries.find()
    missing = binaries.missing("etcd", "kube-apiserver")
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    options = KubeOptions(apiserver_flags=["--etcd-compaction-interval=1s"])
    folder = tmp_path_factory.mktemp("forgetful")
    yield from watch_over(request.config, KubeControlPlane(folder, options, binaries=binaries))


async def churn_until_forgotten(admin: Client, version: str) -> None:
    """Go on writing until the server no longer knows what the world was like then."""
    maps = admin.of(CONFIG_MAPS)
    while True:
        await maps.modify("a", lambda item: {**item, "data": {"seen": item["metadata"]["resourceVersion"]}})
        try:
            await maps.list(namespace="default", resource_version=version, resource_version_match="Exact")
        except api_errors.Expired:
            return


@pytest.mark.kube
async def test_forgotten_versions_are_expired_and_informers_list_again(forgetful_plane: ControlPlane) -> None:
    async with connect(forgetful_plane.kubeconfig) as admin:
        maps = admin.of(CONFIG_MAPS)
        made = [await maps.create(config_map(name), namespace="default") for name in ("a", "b", "c")]
        version = made[0]["metadata"]["resourceVersion"]
        page = await maps.list(namespace="default", limit=1)
        assert page.continue_token
        informer = Informer(maps, namespace="default")
        gone = asyncio.Event()
        informer.add_handler(Handler(on_delete=lambda _: gone.set()))
        async with informer.running():
            await informer.wait_synced()
            await churn_until_forgotten(admin, version)
            with pytest.raises(api_errors.Expired):
                await maps.list(namespace="default", limit=1, continue_token=page.continue_token)
            # Watches are served from memory, which a restarted server begins anew.
            await forgetful_plane.restart(hard=True)
            with pytest.raises(api_errors.Expired):
                async with maps.follow(namespace="default", resource_version=version) as events:
                    await anext(events)
            await maps.delete("b", namespace="default")
            await gone.wait()
            assert informer.store.get("b", "default") is None
            everything = await maps.list_all(namespace="default", limit=1)
            assert {item["metadata"]["name"] for item in everything.items} >= {"a", "c"}
