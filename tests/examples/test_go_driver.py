"""The driver in Go, built and run against a real agent: the contract in proto/ is enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.examples.conftest import EXAMPLES
from tests.goprograms import go_program
from tests.spec.kep5683.conftest import admin, lifecycle_plane, make_site
from tests.spec.kep5683.site import Site, condition

__all__ = ["admin", "lifecycle_plane"]  # fixtures

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("go-driver")]

SOURCES = EXAMPLES / "05-go-driver"


@pytest.fixture(scope="session")
def binary() -> Path:
    return go_program(SOURCES)


@pytest.fixture
def site(lifecycle_plane: ControlPlane, unique_name: Callable[[str], str]) -> Iterator[Site]:
    yield from make_site(lifecycle_plane, unique_name("site"))


async def test_a_driver_in_go(site: Site, binary: Path, admin: RawApi, unique_name: Callable[[str], str]) -> None:
    touched = site.folder / "touched"
    command = [
        str(binary),
        f"-registry-dir={site.folder / 'registry'}",
        f"-plugin-dir={site.folder / 'plugins'}",
        f"-work-dir={touched}",
    ]
    driver = ManagedProcess("go-driver", command, folder=site.folder)
    driver.start()
    try:
        site.start_agent("agent", "--finished-event-ttl=2s")
        async with site.watching(admin) as story:
            uid = (await site.ask(admin, name := unique_name("event"), "touch"))["metadata"]["uid"]
            done = (await story.until(name, "Succeeded"))["status"]
            assert done["driver"] == "example.com/touch"
            assert done["transition"] == {"uid": done["transition"]["uid"], "start": "Touching", "end": "Touched"}
            await story.until(name, "gone")
            assert [path.name for path in touched.iterdir()] == [uid]
            assert condition((await admin.get(site.node_path)).expect(200))["reason"] == "Touched"

            body = {"touch.example.com/refuse": "not today"}
            await site.ask(admin, name := unique_name("event"), "touch", annotations=body)
            assert (await story.until(name, "Failed"))["status"]["message"] == "not today"
        await driver.stop(grace_seconds=30)
        assert list((site.folder / "registry").iterdir()) == []
    finally:
        driver.kill()
