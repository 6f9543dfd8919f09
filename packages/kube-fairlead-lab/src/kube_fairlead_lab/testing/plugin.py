"""The pytest plugin: a Kubernetes API server for the tests of an operator, in under a second.

Installed with kube-fairlead-lab and found by pytest. It imports nothing heavy before a fixture is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from kube_fairlead_lab.testing.control_plane import ControlPlane
    from kube_fairlead_lab.testing.embedded import EmbeddedControlPlane

P = TypeVar("P", bound="ControlPlane")

__all__ = [
    "fairlead_apiserver",
    "fairlead_shared_apiserver",
    "pytest_configure",
    "pytest_runtest_makereport",
    "watch_over",
]

_WATCHED = pytest.StashKey["list[ControlPlane]"]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep a list of control planes, so that a failed test can show their logs."""
    config.stash[_WATCHED] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the logs of every running control plane with a failure."""
    report = yield
    if report.failed:
        for plane in item.config.stash[_WATCHED]:
            report.sections.append((f"{plane.kind} control plane at {plane.url}", plane.last_words()))
    return report


@pytest.fixture
def fairlead_apiserver(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedControlPlane]:
    """An empty API server for this test alone.

    `kubeconfig` is the administrator's, `kubeconfig_for(user, groups)` anyone's, `client()` a client, `restart()` and
    `stop_server(hard=True)` are for operators that must survive it.
    """
    from kube_fairlead_lab.testing.embedded import EmbeddedControlPlane

    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path_factory.mktemp("apiserver")))


@pytest.fixture(scope="session")
def fairlead_shared_apiserver(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedControlPlane]:
    """One API server for the whole session: the fastest choice if every test has its own namespace."""
    from kube_fairlead_lab.testing.embedded import EmbeddedControlPlane

    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path_factory.mktemp("shared-apiserver")))


def watch_over(config: pytest.Config, plane: P) -> Iterator[P]:
    """Start a control plane, yield it, and always stop it. For fixtures: `yield from`."""
    config.stash[_WATCHED].append(plane)
    try:
        _run(plane.start())
        yield plane
    finally:
        config.stash[_WATCHED].remove(plane)
        _run(plane.stop())


def _run(work: Coroutine[None, None, None]) -> None:
    # A separate loop that never becomes the thread's current one, so that the tests' loops stay untouched. Not a
    # separate thread: the servers are killed with the thread that started them.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(work)
