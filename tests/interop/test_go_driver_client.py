"""A driver that our server serves, called by the reference implementation of gRPC."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kube_fairlead.driverapi import server
from kube_fairlead.driverapi.errors import DriverRefused
from kube_fairlead.driverapi.messages import OfferedTransition, Progress, Reached, Work
from tests.goprograms import go_program

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("go-driver-client")]

SAID = [
    "offered 1 OK",
    "started Touching OK",
    r'refused "FailedPrecondition: für immer: 100 %\n"',
    "ended 3 Touched OK",
    "unserved Unimplemented",
    "large OK",
    "too large ResourceExhausted",
    "deadline DeadlineExceeded",
    "progress OK",
    "cancelled Canceled",
    "at once 0 failures",
    "hanging",
]


class Driver:
    """Does as the options of the work say."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.hanging = asyncio.Event()

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        return [OfferedTransition(name="touch", start="Touching", end="Touched", sla="10m", node_name=node_name)]

    async def start(self, work: Work) -> Reached:
        await self._act(work)
        return Reached(state=work.start, node_name=work.node_name)

    async def end(self, work: Work, on_progress: Callable[[Progress], None]) -> Reached:
        for done in range(3):
            on_progress(Progress(done=done, total=3))
        await self._act(work)
        return Reached(state=work.end, node_name=work.node_name)

    async def _act(self, work: Work) -> None:
        if "refuse" in work.options:
            raise DriverRefused(work.options["refuse"])
        if "hang" in work.options:
            if work.options["hang"] == "stop":
                self.hanging.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.append(work.options["hang"])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: sockets are made below it."""
    made = Path(tempfile.mkdtemp(prefix="go-client-"))
    yield made
    shutil.rmtree(made)


async def test_a_client_in_go(folder: Path) -> None:
    program = go_program(Path(__file__).parent / "godriverclient")
    driver, path = Driver(), folder / "driver.sock"
    async with server.serving(path, server.DriverHandler(driver)):
        process = await asyncio.create_subprocess_exec(
            str(program), str(path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        waiting = asyncio.ensure_future(driver.hanging.wait())
        ended = asyncio.ensure_future(process.wait())
        await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    ended.cancel()
    said, failed = await process.communicate()
    assert said.decode().splitlines() == [*SAID, "stopped Unavailable: the server is stopping"], failed.decode()
    assert driver.cancelled == ["deadline", "cancelled", "stop"]
