"""The cost of a grace period for custom resources: of one delete, and of a collection of ten thousand.

Everything is measured beside the same delete without a grace period, in the same run and in alternating order, so that
other load of the machine affects both.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import itertools
import json
import pathlib
import statistics
import tempfile
import time
import timeit
from collections.abc import Iterator

from bench.apiserver_load import Job, Result, drive
from bench.apiserver_plane import Plane, embedded
from bench.harness import Measurement, at_least, at_most, benchmark
from kube_fairlead.lifecycle import deletion
from kube_fairlead_lab.testing.control_plane import Access
from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import RawApi

__all__: list[str] = []

SINGLE = 1_000
COLLECTION = 10_000
PIECES = 40
GROUP = "bench.example.com"
GRACE = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 300})
PLAIN = json.dumps({"kind": "DeleteOptions", "apiVersion": "v1"})
BODIES = {"plain": PLAIN, "graceful": GRACE}
ADDED_BAR_MS = 1.0
THROUGHPUT_BAR = 0.9


@benchmark("graceful-deletion")
def measure() -> Iterator[Measurement]:
    yield _decision()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        plane = embedded(pathlib.Path(folder) / "embedded")
        stack.callback(plane.close)
        asyncio.run(plane.start())
        _ask(plane, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json.dumps(_definition()))
        yield from _single(plane)
        yield from _collections(plane)


def _decision() -> Measurement:
    """The table itself, at its longest row, beside the rule of other kinds."""
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    state = deletion.State(1, now + dt.timedelta(seconds=600), 600)
    calls = 20_000
    table = min(timeit.repeat(lambda: deletion.decide_custom(state, 30, now), number=calls, repeat=5)) / calls
    plain = min(timeit.repeat(lambda: deletion.decide_plain(state, now), number=calls, repeat=5)) / calls
    note = f"best of 5; the rule of other kinds {plain * 1e6:.2f}"
    return Measurement("deciding by the table, row 9", table * 1e6, "us", None, note)


def _single(plane: Plane) -> Iterator[Measurement]:
    """One client, one delete after another, in turns with and without a grace period: the time of each."""
    path = _create(plane, "single", SINGLE * len(BODIES))
    milliseconds = asyncio.run(_take_turns(plane, path))
    plain, graceful = (statistics.median(milliseconds[name]) for name in ("plain", "graceful"))
    yield Measurement("one delete, plain", plain, "ms", None, f"median of {SINGLE}, durable")
    yield Measurement("one delete, graceful", graceful, "ms", None, "the same, in turns")
    yield Measurement("added by the grace period", graceful - plain, "ms", at_most(ADDED_BAR_MS), "of the medians")


async def _take_turns(plane: Plane, path: str) -> dict[str, list[float]]:
    endpoint = plane.endpoint
    access = Access(url=endpoint.url, ca_file=pathlib.Path(endpoint.ca_file), user="", token=endpoint.token)
    taken: dict[str, list[float]] = {name: [] for name in BODIES}
    async with RawApi(access) as api:
        for number, name in enumerate(itertools.chain.from_iterable(map(_order, range(SINGLE)))):
            began = time.perf_counter()
            answer = await api.delete(f"{path}/m-{number}", BODIES[name].encode())
            taken[name].append((time.perf_counter() - began) * 1000)
            answer.expect(200)
    return taken


def _collections(plane: Plane) -> Iterator[Measurement]:
    """deletecollection of ten thousand objects with a finalizer each.

    In alternating pieces, because a server with more in memory is slower, and compared by the server's own CPU time,
    because the wall clock is random on a busy machine; by the median piece, because garbage collection runs at any
    time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in BODIES}
    cpu: dict[str, list[float]] = {name: [] for name in BODIES}
    for number in range(PIECES):
        paths = {name: _create(plane, f"piece-{name}-{number}", COLLECTION // PIECES) for name in BODIES}
        for name in _order(number):
            before = plane.cpu_seconds()
            seconds[name].append(_drive(plane, "DELETE", paths[name], BODIES[name], requests=1, clients=1).seconds)
            cpu[name].append(plane.cpu_seconds() - before)
    for name in BODIES:
        rate, best = COLLECTION / sum(seconds[name]), COLLECTION / PIECES / min(seconds[name])
        note = f"{PIECES} pieces, the fastest at {best:,.0f}; {sum(cpu[name]):.2f} s of the server's CPU"
        yield Measurement(f"deletecollection of 10,000, {name}", rate, "per second", None, note)
    ratio = statistics.median(cpu["plain"]) / statistics.median(cpu["graceful"])
    note = "deleted per second of the server's CPU"
    yield Measurement("graceful beside plain", ratio, "times", at_least(THROUGHPUT_BAR), note)


def _order(number: int) -> list[str]:
    names = list(BODIES)
    return names if number % 2 == 0 else names[::-1]


def _create(plane: Plane, namespace: str, count: int) -> str:
    """Create a namespace with this number of objects; returns their path."""
    _ask(plane, "POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": namespace}}))
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/machines"
    machine = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Machine",
        "metadata": {"name": "m-%d", "finalizers": ["example.com/cleanup"], "labels": {"app": "bench"}},
        "spec": {"size": 3, "image": "registry.example/machine:1.2.3"},
    }
    _drive(plane, "POST", path, json.dumps(machine), requests=count, clients=32)
    return path


def _definition() -> dict[str, object]:
    return custom_resource_definition("machines", GROUP, kind="Machine")


def _ask(plane: Plane, method: str, path: str, body: str) -> None:
    _drive(plane, method, path, body, requests=1, clients=1)


def _drive(plane: Plane, method: str, path: str, body: str, *, requests: int, clients: int) -> Result:
    done = drive(Job(plane.endpoint, method, path, body, clients=clients, requests=requests))
    if done.refused or done.answered != requests:
        raise RuntimeError(f"{method} {path}: {done.answered} answered, refused {done.refused}: {done.last_refusal}")
    return done
