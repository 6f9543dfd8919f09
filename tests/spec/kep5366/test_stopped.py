"""A leader that is stopped longer than its lease, by a real SIGSTOP, does none of a leader's work when it goes on."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5366.components import until

HEAD = """
import asyncio, sys
from kube_fairlead import client, election

TIMING = election.Timing(lease_duration_seconds=3, renew_deadline_seconds=2, retry_period_seconds=0.5)


async def main(work):
    async with client.connect() as api_server:
        await election.lead(api_server, election.Lock(sys.argv[1], "stopped"), work, timing=TIMING)

"""

PLAIN = (
    HEAD
    + """
async def work(term):
    try:
        while await term.pause(0.05):
            print("works", term.number, flush=True)
    finally:
        print("ended", term.number, flush=True)


asyncio.run(main(work))
"""
)

KOPF = (
    HEAD
    + """
import kopf
from kube_fairlead.election import kopf_operator


@kopf.on.event("configmaps")
async def seen(name, **_):
    print("works", name, flush=True)


@kopf.on.create("configmaps")
def created(name, **_):
    print("works", name, flush=True)


async def work(term):
    try:
        await kopf_operator.operate(term, namespace=sys.argv[1])
    finally:
        print("ended", term.number, flush=True)


asyncio.run(main(work))
"""
)

StartProgram = Callable[[str, str], ManagedProcess]


@pytest.fixture
async def start(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[StartProgram]:
    started: list[ManagedProcess] = []

    def start(source: str, name: str) -> ManagedProcess:
        program = tmp_path / f"{name}.py"
        program.write_text(source, encoding="utf-8")
        command = ["/usr/bin/env", f"KUBECONFIG={control_plane.kubeconfig}", sys.executable, str(program), namespace]
        started.append(ManagedProcess(name, command, folder=tmp_path))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        await process.stop()


def said(process: ManagedProcess) -> list[str]:
    lines = process.log.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(("works", "ended"))]


async def until_said(process: ManagedProcess, words: str) -> None:
    async def has() -> bool:
        return any(line.startswith(words) for line in said(process))

    await until(has, what=f"{process.name} says {words!r}")


async def until_over(process: ManagedProcess) -> None:
    """Its term has ended, or the process has, which is as good."""

    async def is_over() -> bool:
        return "ended 0" in said(process) or not process.running

    await until(is_over, what=f"{process.name} ends its term")


async def test_no_work_after_sigcont(start: StartProgram) -> None:
    first = start(PLAIN, "first")
    await until_said(first, "works 0")
    second = start(PLAIN, "second")
    first.freeze()
    before = len(said(first))
    await until_said(second, "works 1")
    first.thaw()
    await until_over(first)
    after = said(first)[before:]
    # A line that was being printed when the signal came was not read yet.
    assert [line for line in after if line.startswith("works")] in ([], ["works 0"]), after


async def test_no_handler_of_kopf_after_sigcont(start: StartProgram, api: RawApi, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    first = start(KOPF, "first")
    (await api.post(maps, config_map("early"))).expect(201)
    await until_said(first, "works early")
    second = start(KOPF, "second")
    first.freeze()
    for number in range(20):  # they wait in the socket of the process that is stopped
        (await api.post(maps, config_map(f"late-{number}"))).expect(201)
    await until_said(second, "works late-19")
    first.thaw()
    await until_over(first)
    assert not [line for line in said(first) if "late" in line]
