from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.base import tasks
from tests.unit.election.world import World, a_world


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Keys are made once: they are the slow part of a server."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture
async def world(server_folder: pathlib.Path) -> AsyncIterator[World]:
    async with a_world(server_folder) as made:
        yield made
    assert tasks.live_tasks() == ()
