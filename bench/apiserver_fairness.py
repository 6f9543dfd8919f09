"""Fairness between users of the embedded API server: how much one user's flood slows another user's requests.

Two service accounts with the same rights. One sends one request after another over one connection; the other floods
the server over many. The bar is the first one's p99 during the flood as a ratio to its p99 on the idle server; rounds
of the two alternate, so that other load of the machine affects both. What fairness itself costs is the processor time
of one request of a user who is alone, as a ratio to that on a server on which it is switched off.

The clients share the processors with the server, and stand for other machines. So the flood's process runs under
SCHED_IDLE: the kernel takes the processor from it as soon as the server or the quiet client can run. Under a nice
value it keeps the processor until the next tick, which is milliseconds. The quiet client, which needs a few percent of
a processor, runs under SCHED_FIFO where that is permitted (to root): it waits for no processor that a thread of the
server uses. The server's own threads have no privilege: beside large bodies its event loop and its thread for them
compete with each other and with the flood's process for two processors, and that is part of what is measured.

Where `make kube` has built kube-apiserver, the same pair is measured on it, and the note has the result.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import statistics
import tempfile
from collections.abc import Iterator

from bench.apiserver_churn import Churn, churn
from bench.apiserver_load import Endpoint, Job, Result, drive
from bench.apiserver_plane import Plane, account, embedded, kube
from bench.harness import Measurement, at_most, benchmark, is_wanted
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.manifests import config_map

__all__: list[str] = []

ROUNDS = 5
KUBE_ROUNDS = 2
SECONDS = 3.0
LISTED = 100
CONNECTIONS = 200
LARGE_CONNECTIONS = 20
HANDSHAKES = 50
CLIENTS = 32
BAR = at_most(3)
COST_BAR = at_most(1.1)
_PATH = "/api/v1/namespaces/default/configmaps"
_OBJECT = json.dumps(config_map("c-%d", {"settings.yaml": "key: value\n" * 40}))


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """The requests of the measured user, and the flood beside it."""

    quiet: Job
    flood: Job | Churn


@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    """The result of a pair."""

    idle_ms: float
    beside_ms: float
    per_second: float
    answered: int
    refused: int

    @property
    def ratio(self) -> float:
        return self.beside_ms / self.idle_ms


@benchmark("apiserver-fairness")
def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        plane = embedded(pathlib.Path(folder) / "embedded")
        stack.callback(plane.close)
        asyncio.run(plane.start())
        loud = account(plane, "loud")
        drive(Job(loud, "POST", _PATH, _OBJECT, clients=1, requests=LISTED))
        yield from _costs(pathlib.Path(folder), plane, loud)
        ours = {name: pair for name, pair in _pairs(account(plane, "quiet"), loud).items() if is_wanted(name)}
        theirs: dict[str, Pair] = {}
        if ours and not KubeBinaries.find().missing("etcd", "kube-apiserver"):
            other = kube(pathlib.Path(folder) / "kube")
            stack.callback(other.close)
            stack.callback(other.thaw)
            asyncio.run(other.start())
            theirs = _pairs(account(other, "quiet"), account(other, "loud"))
            drive(Job(other.endpoint, "POST", _PATH, _OBJECT, clients=1, requests=LISTED))
            other.freeze()
        for name, pair in ours.items():
            found = _compare(pair, ROUNDS)
            note = (
                f"p99 {found.idle_ms:.2f} ms idle, {found.beside_ms:.2f} ms beside {pair.flood.clients} connections; "
                f"{found.per_second:,.0f} requests/s meanwhile, the flood: {found.answered:,} answered, "
                f"{found.refused:,} refused"
            )
            if theirs:
                with _frozen(plane), other.alone():
                    kubes = _compare(theirs[name], KUBE_ROUNDS)
                note += f"; kube-apiserver {kubes.ratio:.3g}x ({kubes.idle_ms:.2f} ms, {kubes.beside_ms:.2f} ms)"
            yield Measurement(f"p99 of {name}", found.ratio, "x idle", BAR, note)


def _pairs(quiet: Endpoint, loud: Endpoint) -> dict[str, Pair]:
    small = _small(quiet)
    read = small["GET"]
    floods = {name: _flooding(job, loud) for name, job in small.items()}
    pairs = {
        f"{mine} beside {theirs}": Pair(small[mine], floods[theirs])
        for mine, theirs in itertools.product(small, floods)
    }
    unknown = dataclasses.replace(loud, token="unknown")
    large = Job(quiet, "POST", f"{_PATH}?dryRun=All", _large(), clients=1, seconds=SECONDS)
    seconds = SECONDS + 2
    return {
        **pairs,
        "GET beside bad credentials": Pair(read, _flooding(read, unknown)),
        "GET beside health checks": Pair(read, dataclasses.replace(floods["GET"], path="/readyz")),
        "GET beside large bodies": Pair(read, _flooding(large, loud, LARGE_CONNECTIONS)),
        "large body beside large bodies": Pair(large, _flooding(large, loud, LARGE_CONNECTIONS)),
        "GET beside TLS handshakes": Pair(read, Churn(unknown, clients=HANDSHAKES, seconds=seconds)),
        "GET beside watches that come and go": Pair(
            read, Churn(loud, f"{_PATH}?watch=1", clients=HANDSHAKES, seconds=seconds)
        ),
    }


def _patching(job: Job) -> Job:
    body = '{"metadata":{"annotations":{"bench":"%n"}}}'
    return dataclasses.replace(job, method="PATCH", body=body, content_type="application/merge-patch+json")


def _large() -> str:
    return json.dumps(config_map("large-%d", {f"key-{number}": "value " * 20 for number in range(4000)}))


def _flooding(job: Job, endpoint: Endpoint, connections: int = CONNECTIONS) -> Job:
    return dataclasses.replace(job, endpoint=endpoint, clients=connections, seconds=SECONDS + 2)


def _costs(folder: pathlib.Path, shared: Plane, endpoint: Endpoint) -> Iterator[Measurement]:
    """Measure the cost of one request of a single user, with fairness and without, in alternating order."""
    jobs = {f"CPU of {name} by a user alone": job for name, job in _small(endpoint).items()}
    jobs = {name: job for name, job in jobs.items() if is_wanted(name)}
    if not jobs:
        return
    plain = embedded(folder / "plain", "--enable-priority-and-fairness=false")
    try:
        asyncio.run(plain.start())
        endpoints = {plain: account(plain, "loud"), shared: endpoint}
        drive(Job(endpoints[plain], "POST", _PATH, _OBJECT, clients=1, requests=LISTED))
        for plane in endpoints:
            plane.freeze()
        for name, job in jobs.items():
            spent: dict[Plane, list[float]] = {plain: [], shared: []}
            for _ in range(ROUNDS):
                for plane, user in endpoints.items():
                    with plane.alone():
                        before = plane.cpu_seconds()
                        result = _expect(drive(dataclasses.replace(job, endpoint=user, clients=CLIENTS, seconds=2.0)))
                        spent[plane].append((plane.cpu_seconds() - before) / result.answered * 1e6)
            without, shared_out = (statistics.median(spent[plane]) for plane in (plain, shared))
            note = f"{shared_out:,.0f} us, {without:,.0f} us with fairness off; {CLIENTS} connections of one user"
            yield Measurement(name, shared_out / without, "x without", COST_BAR, note)
    finally:
        plain.thaw()
        plain.close()
        shared.thaw()


def _small(endpoint: Endpoint) -> dict[str, Job]:
    read = Job(endpoint, "GET", f"{_PATH}/c-%d", clients=1, span=LISTED, seconds=SECONDS)
    return {"GET": read, "PATCH": _patching(read), "LIST": dataclasses.replace(read, path=_PATH)}


def _compare(pair: Pair, rounds: int) -> Latency:
    idle, busy = [], []
    answered = refused = 0
    for _ in range(rounds):
        with (
            concurrent.futures.ThreadPoolExecutor(1, initializer=_come_first) as first,
            concurrent.futures.ThreadPoolExecutor(1, initializer=_stand_back) as beside,
        ):
            idle.append(_expect(first.submit(drive, pair.quiet).result()))
            flooding = beside.submit(_flood, pair.flood)
            _wait_begun(flooding)
            busy.append(_expect(first.submit(drive, pair.quiet).result()))
            result = flooding.result()
        answered += result[0]
        refused += result[1]
    before, during = (statistics.median(result.p99_ms for result in results) for results in (idle, busy))
    return Latency(before, during, statistics.median(result.per_second for result in busy), answered, refused)


@contextlib.contextmanager
def _frozen(plane: Plane) -> Iterator[None]:
    plane.freeze()
    try:
        yield
    finally:
        plane.thaw()


def _flood(flood: Job | Churn) -> tuple[int, int]:
    """Return the numbers of answered and of rejected requests."""
    if isinstance(flood, Churn):
        return churn(flood), 0
    result = drive(flood)
    return result.answered, sum(result.refused.values())


def _stand_back() -> None:
    """Run the flood with the lowest priority: it represents other machines."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # of this thread, and of the process that it starts


def _come_first() -> None:
    """Run the quiet client with the highest priority: it represents another machine."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _wait_begun(flooding: concurrent.futures.Future[tuple[int, int]]) -> None:
    """Wait for the flood's handshakes, which are not measured."""
    with contextlib.suppress(concurrent.futures.TimeoutError):
        flooding.result(timeout=1.5)


def _expect(result: Result) -> Result:
    if result.refused:
        raise RuntimeError(f"the quiet user was refused {result.refused}: {result.last_refusal}")
    return result
