"""The examples, as their README says to run them, on both control planes; on stock Kubernetes with the webhook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import yaml

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5673.objects import Kind, serve
from tests.spec.kep5673.programs import Webhook

EXAMPLES = Path(__file__).parents[2] / "examples"
MACHINES = EXAMPLES / "01-virtual-machine"
DATABASES = EXAMPLES / "02-database-kopf"


@pytest.fixture(scope="session")
def served(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Kind]]:
    """The examples' kinds, served, with their grace periods kept."""
    kinds: dict[str, Kind] = {}
    started: list[Webhook] = []

    async def start() -> None:
        async with RawApi(control_plane.access()) as api:
            for folder in (DATABASES, MACHINES):
                manifest = yaml.safe_load((folder / "definition.yaml").read_text(encoding="utf-8"))
                kinds[folder.name] = await serve(api, manifest, "default")
            if control_plane.kind == "kube":
                started.append(Webhook(control_plane, api, list(kinds.values()), tmp_path_factory.mktemp("webhook")))
                await started[0].start()

    try:
        with asyncio.Runner() as runner:
            runner.run(start())
        yield kinds
    finally:
        with asyncio.Runner() as runner:
            for webhook in started:
                runner.run(webhook.stop_process())


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[Callable[..., ManagedProcess]]:
    """Start a program of an example; it ends with the test, and its log is shown when the test fails."""
    started: list[ManagedProcess] = []

    def start(name: str, *command: str | Path) -> ManagedProcess:
        process = ManagedProcess(name, [str(part) for part in command], folder=tmp_path)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        await process.stop()
        print(process.last_words())  # noqa: T201 - captured, and shown beside a failure
