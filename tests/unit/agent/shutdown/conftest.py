from __future__ import annotations

import pathlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.unit.agent.shutdown.fakelogind import FakeLogind, private_bus


@pytest.fixture
def short_folder() -> Iterator[pathlib.Path]:
    """Sockets need short paths."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fl-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def bus(short_folder: pathlib.Path) -> Iterator[str]:
    with private_bus(short_folder) as address:
        yield address


@pytest.fixture
async def logind(bus: str, short_folder: pathlib.Path) -> AsyncIterator[FakeLogind]:
    fake = FakeLogind()
    fake.drop_in = short_folder / "logind.conf.d" / "99-z-fairlead.conf"
    async with fake.on(bus):
        yield fake
    fake.close()
