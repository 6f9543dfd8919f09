"""What a scene uses: an API server in this process, a client for it, and the output."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import pathlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import click

from kube_fairlead import client
from kube_fairlead.base.clock import Clock, RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_apiserver import launch
from kube_fairlead_apiserver.server import Dependencies
from kube_fairlead_apiserver.settings import Settings
from kube_fairlead_lab.demo.scenes import SceneEntry

__all__ = ["SceneContext", "SceneFailed", "play_scenes"]


class SceneFailed(Exception):
    """A check of the scene failed."""


@dataclasses.dataclass(slots=True)
class SceneContext:
    """Passed to every scene."""

    client: client.Client
    clock: Clock
    url: str
    kubeconfig: pathlib.Path
    began_at: float

    def narrate(self, text: str) -> None:
        """Print one line, with the time since the scene began."""
        elapsed = self.clock.monotonic() - self.began_at
        click.echo(f"  {click.style(f'{elapsed:6.2f}s', dim=True)}  {text}")

    def check(self, held: object, what: str) -> None:
        """Print what holds; end the scene if it does not."""
        if not held:
            raise SceneFailed(f"check failed: {what}")
        self.narrate(click.style("✓ ", fg="green") + what)


async def play_scenes(entries: Sequence[SceneEntry]) -> None:
    """Run scenes one after another, on one control plane."""
    clock = RealClock()
    with tempfile.TemporaryDirectory(prefix="fairlead-demo-") as folder:
        started = clock.monotonic()
        async with _control_plane(pathlib.Path(folder), clock) as context:
            click.echo(f"API server ready in {clock.monotonic() - started:.2f} s at {context.url}\n")
            for entry in entries:
                click.echo(click.style(entry.title, bold=True) + f"  [{entry.name}]")
                click.echo(f"  proves: {entry.proves}")
                context.began_at = clock.monotonic()
                await importlib.import_module(entry.module).play(context)
                click.echo()
    count = len(entries)
    click.echo(click.style(f"{count} scene{'s' if count != 1 else ''} passed.", bold=True))
    click.echo("Next: `fairlead apiserver` starts such a server and prints how to use it with kubectl.")


@asynccontextmanager
async def _control_plane(folder: pathlib.Path, clock: Clock) -> AsyncIterator[SceneContext]:
    randomness = SystemRandomness()
    world = Dependencies(clock, randomness, RandomIds(randomness), PrometheusMetrics())
    ready: asyncio.Future[launch.RunningServer] = asyncio.get_running_loop().create_future()
    async with TaskScope("demo", on_exit=OnExit.CANCEL) as scope:
        scope.start(launch.serve(Settings(folder, port=0), world, ready.set_result), name="apiserver")
        running = await ready
        connection = client.connect(
            kubeconfig_path=running.kubeconfig, component="fairlead-demo", environment=Environment({})
        )
        async with connection as connected:
            yield SceneContext(connected, clock, running.url, running.kubeconfig, clock.monotonic())
