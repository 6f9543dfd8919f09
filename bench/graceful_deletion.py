"""What the grace period of custom resources costs: of one delete, and of a collection of ten thousand.

Everything is measured beside the same delete without a grace period, in the same run and in alternating order, so that
what else the machine does meets both.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import pathlib
import statistics
import tempfile
import timeit
from collections.abc import Iterator

from bench.apiserver_load import Job, Result, drive
from bench.apiserver_plane import Plane, embedded
from bench.harness import Measurement, at_least, at_most, benchmark
from fairlead.lifecycle import deletion
from fairlead.testing.manifests import custom_resource_definition

__all__: list[str] = []

ROUNDS = 3
SINGLE = 1_000
COLLECTION = 10_000
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
    """One client, one delete after another: the time of each."""
    medians: dict[str, list[float]] = {name: [] for name in BODIES}
    for number in range(ROUNDS):
        for name in _order(number):
            path = _create(plane, f"single-{name}-{number}", SINGLE)
            done = _drive(plane, "DELETE", f"{path}/m-%d", BODIES[name], requests=SINGLE, clients=1)
            medians[name].append(done.p50_ms)
    plain, graceful = (statistics.median(medians[name]) for name in ("plain", "graceful"))
    yield Measurement("one delete, plain", plain, "ms", None, f"median of {ROUNDS} x {SINGLE}, durable")
    yield Measurement("one delete, graceful", graceful, "ms", None, "the same")
    yield Measurement("added by the grace period", graceful - plain, "ms", at_most(ADDED_BAR_MS), "of the medians")


def _collections(plane: Plane) -> Iterator[Measurement]:
    """deletecollection of ten thousand objects with a finalizer each."""
    seconds: dict[str, list[float]] = {name: [] for name in BODIES}
    for number in range(ROUNDS):
        for name in _order(number):
            path = _create(plane, f"many-{name}-{number}", COLLECTION)
            seconds[name].append(_drive(plane, "DELETE", path, BODIES[name], requests=1, clients=1).seconds)
    plain, graceful = (COLLECTION / min(seconds[name]) for name in ("plain", "graceful"))
    yield Measurement("deletecollection of 10,000, plain", plain, "per second", None, f"best of {ROUNDS}")
    yield Measurement("deletecollection of 10,000, graceful", graceful, "per second", None, "the same")
    yield Measurement("graceful beside plain", graceful / plain, "times", at_least(THROUGHPUT_BAR), "of the best")


def _order(number: int) -> list[str]:
    names = list(BODIES)
    return names if number % 2 == 0 else names[::-1]


def _create(plane: Plane, namespace: str, count: int) -> str:
    """A namespace with that many objects; where they are."""
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
