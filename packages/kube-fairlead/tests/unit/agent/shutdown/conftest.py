from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator, Iterator

import pytest

from kube_fairlead.base import tasks
from tests.unit.agent.shutdown.fakelogind import FakeLogind, private_bus
from tests.unit.agent.shutdown.world import NodeWorld, a_node


@pytest.fixture
def bus(short_path: pathlib.Path) -> Iterator[str]:
    with private_bus(short_path) as address:
        yield address


@pytest.fixture
async def logind(bus: str, short_path: pathlib.Path) -> AsyncIterator[FakeLogind]:
    fake = FakeLogind()
    fake.drop_in = short_path / "logind.conf.d" / "99-z-fairlead.conf"
    async with fake.on(bus):
        yield fake
    fake.close()


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Keys are made once: they are the slow part of a server."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture
async def here(server_folder: pathlib.Path, tmp_path: pathlib.Path) -> AsyncIterator[NodeWorld]:
    async with a_node(server_folder, tmp_path) as made:
        yield made
    assert tasks.live_tasks() == ()
