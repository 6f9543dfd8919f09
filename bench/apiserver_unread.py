"""Clients that open watches of a large collection and never read.

The server's memory for them, and the effect on others.

They use one service account with all permissions: an ordinary user, whose requests take turns with those of others.

`python -m bench.apiserver_unread` is the process of those clients. It reads an `UnreadJob` from standard input, prints
`ready` when every watch is open, and replaces each watch that the server closes, until it is terminated.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import heapq
import json
import pathlib
import random
import select
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

import msgspec

from bench.apiserver_load import Endpoint, Job, Result, drive, tls
from bench.apiserver_plane import Plane, account, embedded
from bench.harness import Measurement, at_most, benchmark
from kube_fairlead_lab.testing.manifests import config_map

__all__ = ["UnreadJob", "hold_unread"]

WATCHERS = 1_000
OBJECTS = 1_000
OBJECT_BYTES = 10_000
WRITES_PER_SECOND = 100
SECONDS = 300.0
IDLE_SECONDS = 60.0
GONE_SECONDS = 60.0
BACK_OFF_SECONDS = (0.8, 30.0)  # client-go's
PATH = "/api/v1/namespaces/default/configmaps"

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_STATE = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@dataclasses.dataclass(frozen=True, slots=True)
class UnreadJob:
    """A number of requests that are not read, distributed over the targets.

    A path with its query, and the accepted type.
    """

    endpoint: Endpoint
    count: int
    targets: list[tuple[str, str]]


class _Unread:
    """Connections whose responses are not read. The kernel buffers almost nothing for them."""

    def __init__(self, job: UnreadJob) -> None:
        self._job = job
        self._context = tls(job.endpoint)
        self._poll = select.epoll()
        self._open: dict[int, tuple[ssl.SSLSocket, int]] = {}
        self._due: list[tuple[float, int]] = []  # when to ask again, and which of them
        self._random = random.Random(1)

    def connect(self, number: int) -> None:
        host, port = self._job.endpoint.address
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(60)
        raw.connect((host, port))
        connection = self._context.wrap_socket(raw, server_hostname=host)
        target, accept = self._job.targets[number % len(self._job.targets)]
        head = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {self._job.endpoint.token}\r\n"
        connection.sendall(f"{head}Accept: {accept}\r\n\r\n".encode())
        self._open[connection.fileno()] = connection, number
        self._poll.register(connection.fileno(), select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR)

    def renew(self, seconds: float) -> None:
        """Replace each closed connection after a while, as clients do."""
        for descriptor, _ in self._poll.poll(seconds):
            connection, number = self._open.pop(descriptor)
            self._poll.unregister(descriptor)
            connection.close()
            heapq.heappush(self._due, (time.monotonic() + self._random.uniform(*BACK_OFF_SECONDS), number))
        while self._due and self._due[0][0] <= time.monotonic():
            with contextlib.suppress(OSError):
                self.connect(heapq.heappop(self._due)[1])


@contextlib.contextmanager
def hold_unread(job: UnreadJob) -> Iterator[subprocess.Popen[bytes]]:
    """Run such clients in their own process for the duration of the block."""
    command = [sys.executable, "-m", "bench.apiserver_unread"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.flush()
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("the clients that do not read did not start")
            yield process
        finally:
            process.kill()


class _Sampler:
    """The largest of the values that it samples four times a second."""

    def __init__(self, look: Callable[[], float]) -> None:
        self.most = 0.0
        self._look = look
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.25):
            self.most = max(self.most, self._look())


def _kernel_megabytes() -> float:
    """Return the kernel's memory for TCP on this machine, for both ends of each connection."""
    text = pathlib.Path("/proc/net/sockstat").read_text(encoding="ascii")
    pages = next(line for line in text.splitlines() if line.startswith("TCP:")).split()
    return int(pages[pages.index("mem") + 1]) * 4096 / 2**20


def _load(plane: Plane, seconds: float) -> tuple[Result, Result]:
    """Send an even stream of writes beside clients that read one object after another; returns how long each waited."""
    patch = '{"data":{"k":"%n' + "y" * OBJECT_BYTES + '"}}'
    one = f"{PATH}/c-%d"
    writes = Job(
        plane.endpoint, "PATCH", one, patch, "application/merge-patch+json", clients=4, span=OBJECTS, seconds=seconds
    )
    reads = Job(plane.endpoint, "GET", one, clients=2, span=OBJECTS, seconds=seconds)
    results: list[Result] = []
    paced = dataclasses.replace(writes, per_second=WRITES_PER_SECOND)
    reader = threading.Thread(target=lambda: results.append(drive(dataclasses.replace(reads, per_second=100))))
    reader.start()
    wrote = drive(paced)
    reader.join()
    return wrote, results[0]


@benchmark("apiserver-unread")
def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        plane = embedded(pathlib.Path(folder) / "embedded")
        stack.callback(plane.close)
        asyncio.run(plane.start())
        body = json.dumps(config_map("c-%d", {"k": "x" * OBJECT_BYTES}))
        drive(Job(plane.endpoint, "POST", PATH, body, requests=OBJECTS))
        idle = _load(plane, IDLE_SECONDS)
        start = plane.resident_megabytes()
        targets = [
            (f"{PATH}?watch=1&resourceVersion=0", "application/json"),
            (f"{PATH}?{_STATE}", "application/json"),
            (f"{PATH}?{_STATE}", _TABLE),
            (f"{PATH}?{_STATE}", _METADATA),
        ]
        job = UnreadJob(account(plane, "watchers"), WATCHERS, targets)
        with _Sampler(plane.resident_megabytes) as memory, _Sampler(_kernel_megabytes) as kernel, hold_unread(job):
            busy = _load(plane, SECONDS)
        yield Measurement(
            f"{WATCHERS} watches not read: memory", memory.most, "MB", at_most(400), f"kernel {kernel.most:.0f} MB"
        )
        for what, before, during in zip(("writes", "reads"), idle, busy, strict=True):
            middle = f"median {during.p50_ms:.1f}, {before.p50_ms:.1f}"
            note = f"p99 {during.p99_ms:.1f} ms, idle {before.p99_ms:.1f} ms; {middle}"
            ratio = during.p99_ms / before.p99_ms
            yield Measurement(f"{WATCHERS} watches not read: {what}, p99", ratio, "x idle", at_most(2), note)
        end = _settled(plane)
        note = f"{start:.0f} MB before, {end:.0f} MB after"
        yield Measurement(f"{WATCHERS} watches gone: memory", end / start, "x start", at_most(1.2), note)


def _settled(plane: Plane) -> float:
    """Return the memory once it no longer decreases."""
    left: list[float] = []
    until = time.monotonic() + GONE_SECONDS
    while time.monotonic() < until:
        time.sleep(1)
        left.append(plane.resident_megabytes())
        if len(left) > 5 and statistics.pstdev(left[-5:]) < 0.2:
            break
    return left[-1]


def _main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=UnreadJob)
    unread = _Unread(job)
    for number in range(job.count):
        unread.connect(number)
    print("ready", flush=True)
    while True:
        unread.renew(0.1)


if __name__ == "__main__":
    _main()
