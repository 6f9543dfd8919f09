"""Both ways to honour a grace period: our server by itself, and stock Kubernetes with `fairlead webhook`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.planes import BOTH, make_plane
from tests.spec.kep5673.objects import Kind, define
from tests.spec.kep5673.programs import Webhook
from tests.spec.kep5673.shim.keeping import Shimmed

GROUP = "shim.example.com"


@pytest.fixture(scope="session", params=BOTH)
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from watch_over(request.config, make_plane(request.param, tmp_path_factory.mktemp(request.param)))


@pytest.fixture(scope="session")
def webhook(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook | None]:
    """The shim, where it is needed; the kind is there before it, as in every cluster that adopts it."""
    started: list[Webhook] = []

    async def start() -> None:
        async with RawApi(control_plane.access()) as api:
            kind = await define(api, GROUP, "default")
            if control_plane.kind == "embedded":
                return
            webhook = Webhook(control_plane, api, [kind], tmp_path_factory.mktemp("webhook"))
            started.append(webhook)
            await webhook.start()

    try:
        with asyncio.Runner() as runner:
            runner.run(start())
        yield started[0] if started else None
    finally:
        with asyncio.Runner() as runner:
            for each in started:
                runner.run(each.stop_process())


@pytest.fixture
async def shimmed(
    control_plane: ControlPlane, api: RawApi, namespace: str, webhook: Webhook | None
) -> AsyncIterator[Shimmed]:
    kind = Kind(api, GROUP, "machines", "Machine", namespace)
    yield Shimmed(kind, native=webhook is None, webhook=webhook)
    for item in (await api.get(kind.path())).expect(200)["items"]:
        await kind.set_finalizers(item["metadata"]["name"])
