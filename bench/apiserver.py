"""The embedded API server side by side with kube-apiserver and etcd: start, memory, throughput, watch delivery.

Both run on this machine, over TLS, with durable writes. While one is measured the other is frozen, and the rounds
alternate between them, so that other load of the machine affects both. The bars are ratios of the medians.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator

from bench.apiserver_load import Job, Result, drive
from bench.apiserver_plane import Plane, embedded, kube
from bench.apiserver_watch import Delivery, WatchJob, measure_delivery
from bench.harness import Bar, BenchmarkSkipped, Measurement, at_least, at_most, benchmark
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.manifests import config_map, pod

__all__: list[str] = []

ROUNDS = 3
SECONDS = 3.0
WATCHERS = 500
WATCH_EVENTS = 100
LISTED = 500
NAMESPACE = "bench"
SHELF = "shelf"  # holds the pods that are listed, got and patched

_LABELS = {"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-%d", "pod-template-hash": "5d59d67564"}
_CONFIG_MAP = json.dumps(config_map("c-%d", {"settings.yaml": "key: value\n" * 40}, labels=_LABELS))
_POD = json.dumps(
    pod(
        "p-%d",
        spec={
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/web:1.2.3",
                    "ports": [{"containerPort": 8080, "name": "http"}],
                    "env": [{"name": "MODE", "value": "production"}, {"name": "LEVEL", "value": "info"}],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "128Mi"},
                        "limits": {"cpu": "500m", "memory": "256Mi"},
                    },
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                }
            ],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "automountServiceAccountToken": False,  # the bare kube-apiserver has no service accounts
        },
        labels=_LABELS,
    )
)
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
KINDS = {"configmaps": ("c", _CONFIG_MAP, MERGE), "pods": ("p", _POD, STRATEGIC)}


@benchmark("apiserver")
def measure() -> Iterator[Measurement]:
    if KubeBinaries.find().missing("etcd", "kube-apiserver"):
        raise BenchmarkSkipped("kube-apiserver and etcd are not built; run: make kube")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        planes = [embedded(pathlib.Path(folder) / "embedded"), kube(pathlib.Path(folder) / "kube")]
        for plane in planes:
            stack.callback(plane.close)
        yield from _start(planes)
        for plane in planes:
            asyncio.run(plane.start())
            plane.freeze()
        yield from _idle_memory(planes)
        for plane in planes:
            with plane.alone():
                _fill(plane)
        for kind in KINDS:
            yield from _throughput(planes, kind)
        yield from _watch_delivery(planes)
        ours, theirs = (plane.resident_megabytes() for plane in planes)
        yield Measurement("memory afterwards", ours, "MB", None, f"kube {theirs:.0f} MB")


def _start(planes: list[Plane]) -> Iterator[Measurement]:
    """The first start creates a cluster; later ones load it. Both are compared by the fastest of a few."""
    first: dict[str, list[float]] = {}
    later: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for plane in planes:
            plane.empty()
            first.setdefault(plane.name, []).append(asyncio.run(plane.start()))
            asyncio.run(plane.stop())
            later.setdefault(plane.name, []).append(asyncio.run(plane.start()))
            asyncio.run(plane.stop())
    for what, seconds in (("first start to ready", first), ("later start to ready", later)):
        ours, theirs = (min(seconds[plane.name]) for plane in planes)
        yield _compare(what, ours, theirs, "s", at_most(0.1))


def _idle_memory(planes: list[Plane]) -> Iterator[Measurement]:
    megabytes = []
    for plane in planes:
        with plane.alone():
            time.sleep(3)  # background work of the start has ended by then
            megabytes.append(plane.resident_megabytes())
    yield _compare("idle memory", megabytes[0], megabytes[1], "MB", at_most(0.25))


def _fill(plane: Plane) -> None:
    for namespace in (NAMESPACE, SHELF):
        body = json.dumps({"metadata": {"name": namespace}})
        _run(Job(plane.endpoint, "POST", "/api/v1/namespaces", body, clients=1, requests=1))
        plane.wait_furnished(namespace)
    for kind, (_, body, _) in KINDS.items():
        _run(Job(plane.endpoint, "POST", f"/api/v1/namespaces/{SHELF}/{kind}", body, requests=LISTED))


def _throughput(planes: list[Plane], kind: str) -> Iterator[Measurement]:
    """Rounds of create, get, patch, list and delete; each is compared by its median over the rounds."""
    seen: dict[str, dict[str, list[tuple[float, float]]]] = {}
    generator: dict[str, float] = {}
    for number in range(ROUNDS):
        for plane in planes:
            with plane.alone():
                for verb, result, cpu in _round(plane, kind, number):
                    seen.setdefault(verb, {}).setdefault(plane.name, []).append((result.per_second, cpu))
                    generator[verb] = max(generator.get(verb, 0), result.cpu_seconds / result.seconds)
    for verb, by_plane in seen.items():
        ours, theirs = (statistics.median(rate for rate, _ in by_plane[plane.name]) for plane in planes)
        our_cpu, their_cpu = (statistics.median(cpu for _, cpu in by_plane[plane.name]) for plane in planes)
        note = f"server CPU {our_cpu:,.0f} and {their_cpu:,.0f} us, generator at most {generator[verb]:.0%} of a core"
        yield _compare(f"{verb} {kind}", ours, theirs, "/s", at_least(2), note)


def _round(plane: Plane, kind: str, number: int) -> Iterator[tuple[str, Result, float]]:
    prefix, body, patch_type = KINDS[kind]
    here, shelf = (f"/api/v1/namespaces/{namespace}/{kind}" for namespace in (NAMESPACE, SHELF))
    first = number * 1_000_000
    patch = '{"metadata":{"annotations":{"bench":"%n-' + str(number) + '"}}}'
    one = f"{shelf}/{prefix}-%d"
    created = _timed(plane, Job(plane.endpoint, "POST", here, body, first=first, seconds=SECONDS))
    yield ("create", *created)
    yield ("get", *_timed(plane, Job(plane.endpoint, "GET", one, span=LISTED, seconds=SECONDS)))
    job = Job(plane.endpoint, "PATCH", one, patch, patch_type, span=LISTED, seconds=SECONDS)
    yield ("patch", *_timed(plane, job))
    yield ("list 500", *_timed(plane, Job(plane.endpoint, "GET", shelf, seconds=SECONDS)))
    gone = Job(plane.endpoint, "DELETE", f"{here}/{prefix}-%d", first=first, requests=created[0].answered)
    yield ("delete", *_timed(plane, gone))


def _timed(plane: Plane, job: Job) -> tuple[Result, float]:
    """The result of a job, and the server's CPU time per request in microseconds."""
    before = plane.cpu_seconds()
    result = _run(job)
    return result, (plane.cpu_seconds() - before) / result.answered * 1e6


def _run(job: Job) -> Result:
    result = drive(job)
    if result.refused:
        raise RuntimeError(f"{job.method} {job.path}: refused {result.refused}: {result.last_refusal}")
    return result


def _watch_delivery(planes: list[Plane]) -> Iterator[Measurement]:
    seen: dict[str, list[tuple[float, ...]]] = {}
    for number in range(ROUNDS):
        for plane in planes:
            with plane.alone():
                before = plane.cpu_seconds()
                delivery = _deliver(plane, number)
                cpu = (plane.cpu_seconds() - before) / (WATCHERS * WATCH_EVENTS) * 1e6
                seen.setdefault(plane.name, []).append((*dataclasses.astuple(delivery), cpu))
    ours, theirs = ([statistics.median(column) for column in zip(*seen[plane.name], strict=True)] for plane in planes)
    note = f"median {ours[0]:.1f} and {theirs[0]:.1f} ms, server CPU {ours[4]:.0f} and {theirs[4]:.0f} us a delivery"
    what = f"watch delivery, {WATCHERS} watchers"
    yield _compare(f"{what}: answered to seen, p99", ours[1], theirs[1], "ms", at_most(1), note)
    note = f"median {ours[2]:.1f} and {theirs[2]:.1f} ms"
    yield _compare(f"{what}: asked to seen, p99", ours[3], theirs[3], "ms", at_most(1), note)


def _deliver(plane: Plane, number: int) -> Delivery:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    watched = f"{path}?watch=1&resourceVersion=0&labelSelector=round%3D{number}"
    job = WatchJob(plane.endpoint, watched, WATCHERS, WATCH_EVENTS)
    body = json.dumps(config_map(f"w-{number}-%d", {"key": "value" * 100}, labels={"round": str(number)}))
    return measure_delivery(job, "POST", path, body, pause_seconds=0.1)


def _compare(what: str, ours: float, theirs: float, unit: str, bar: Bar | None, note: str = "") -> Measurement:
    text = f"{ours:,.4g} {unit}, kube {theirs:,.4g} {unit}"
    return Measurement(what, ours / theirs, "x kube", bar, f"{text}; {note}" if note else text)
