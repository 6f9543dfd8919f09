"""Many watchers in their own process, which record when each event arrives.

`python -m bench.apiserver_watch` reads a `WatchJob` from standard input, prints `ready` when every watch is open, and
writes the arrival times of every watcher to standard output once each has received all events. Times are those of the
machine's monotonic clock, so the writer's process can compare them with its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import msgspec
import uvloop

from bench.apiserver_load import Endpoint, tls

__all__ = ["Delivery", "WatchJob", "measure_delivery"]

_END_OF_EVENT = b"}\n"


@dataclasses.dataclass(frozen=True, slots=True)
class WatchJob:
    """A number of watches of one path, until each has received a number of events."""

    endpoint: Endpoint
    path: str
    watchers: int
    events: int


@dataclasses.dataclass(frozen=True, slots=True)
class Delivery:
    """From a write to the arrival of its event, over all watchers and writes.

    Counted from the acknowledgement, where a server that sends to its watchers first has no delay, and from the
    request, where the order does not matter.
    """

    after_answer_p50_ms: float
    after_answer_p99_ms: float
    after_request_p50_ms: float
    after_request_p99_ms: float


class _Watch(asyncio.Protocol):
    """One watch. Events are counted by their ends: every watcher sees every write, in order."""

    def __init__(self, job: WatchJob, opened: asyncio.Semaphore, finished: asyncio.Semaphore) -> None:
        self.arrivals: list[float] = []
        self._job = job
        self._opened = opened
        self._finished = finished
        self._started = False
        self._open_end = False  # the last piece ended between the two bytes of an event's end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        host, port = self._job.endpoint.address
        transport.write(  # type: ignore[attr-defined] # uvloop's transports are of no class of asyncio's
            f"GET {self._job.path} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: application/json\r\n"
            f"Authorization: Bearer {self._job.endpoint.token}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if not self._started:
            if not data.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"a watch was refused: {data[:300]!r}")
            self._started = True
            self._opened.release()
        seen = data.count(_END_OF_EVENT)
        if self._open_end and data.startswith(b"\n"):
            seen += 1
        self._open_end = data.endswith(b"}")
        if seen:
            self.arrivals += [now] * seen
            if len(self.arrivals) >= self._job.events:
                self._finished.release()


async def _watch(job: WatchJob) -> list[list[float]]:
    loop = asyncio.get_running_loop()
    context = tls(job.endpoint)
    host, port = job.endpoint.address
    opened, finished = asyncio.Semaphore(0), asyncio.Semaphore(0)
    made = []
    for _ in range(job.watchers):
        made.append(await loop.create_connection(lambda: _Watch(job, opened, finished), host, port, ssl=context))
        await opened.acquire()
    print("ready", flush=True)
    for _ in made:
        await finished.acquire()
    for transport, _ in made:
        transport.abort()
    return [watch.arrivals for _, watch in made]


def measure_delivery(job: WatchJob, method: str, path: str, body: str, *, pause_seconds: float) -> Delivery:
    """Write at an even pace and compare each request and its acknowledgement with the arrivals of its event."""
    with _watchers(job) as watchers:
        written = list(_write(job, method, path, body, pause_seconds))
        output, _ = watchers.communicate(timeout=60)
    arrivals = msgspec.json.decode(output, type=list[list[float]])
    requested, acknowledged = zip(*written, strict=True)
    return Delivery(*_middle_and_tail(arrivals, acknowledged), *_middle_and_tail(arrivals, requested))


def _middle_and_tail(arrivals: list[list[float]], since: Sequence[float]) -> tuple[float, float]:
    delays = sorted(
        max(0.0, arrived - begun) * 1000 for one in arrivals for arrived, begun in zip(one, since, strict=True)
    )
    return delays[len(delays) // 2], delays[len(delays) * 99 // 100]


@contextlib.contextmanager
def _watchers(job: WatchJob) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "bench.apiserver_watch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(job))
            process.stdin.close()
            process.stdin = None  # communicate() would flush it
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("the watchers did not start")
            yield process
        finally:
            process.kill()


def _write(job: WatchJob, method: str, path: str, body: str, pause_seconds: float) -> Iterator[tuple[float, float]]:
    """Return when each request was sent, and when it was acknowledged."""
    host, port = job.endpoint.address
    connection = http.client.HTTPSConnection(host, port, context=tls(job.endpoint))
    headers = {"Authorization": f"Bearer {job.endpoint.token}", "Content-Type": "application/json"}
    with contextlib.closing(connection):
        for number in range(job.events):
            requested = time.perf_counter()
            due = requested + pause_seconds
            connection.request(method, path, body.replace("%d", str(number)), headers)
            answer = connection.getresponse()
            acknowledged = time.perf_counter()
            text = answer.read()
            if not 200 <= answer.status < 300:
                raise RuntimeError(f"{method} {path} answered {answer.status}: {text[:300]!r}")
            yield requested, acknowledged
            time.sleep(max(0.0, due - time.perf_counter()))


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=WatchJob)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.buffer.write(msgspec.json.encode(runner.run(_watch(asked))))
