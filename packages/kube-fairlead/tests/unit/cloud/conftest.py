from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator

import pytest

from tests.unit.cloud.world import World, make_world


@pytest.fixture
async def world(tmp_path: pathlib.Path) -> AsyncIterator[World]:
    async with make_world(tmp_path) as made:
        yield made
