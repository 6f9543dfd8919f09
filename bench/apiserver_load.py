"""A load generator: closed-loop clients over TLS, in its own process.

`python -m bench.apiserver_load` reads a `Job` as JSON from standard input and writes a `Result` to standard output. It
speaks just enough HTTP/1.1 to be sure of an answer's status and end, so that it costs a small part of what the server
under it costs; it reports its own CPU time, so that this can be checked.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import resource
import ssl
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator

import msgspec
import uvloop

__all__ = ["Endpoint", "Job", "Result", "TlsExchange", "drive", "tls"]

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END_OF_CHUNKS = b"0\r\n\r\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """The server's address and a token."""

    url: str
    ca_file: str
    token: str

    @property
    def address(self) -> tuple[str, int]:
        parts = urllib.parse.urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 443


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """Requests of one kind. `%d` in path and body is the request's number, counted through `span` again and again.

    It ends after `seconds`, or after `requests`, whichever is set. With `per_second` the clients ask at that pace
    together, else each as soon as it is answered.
    """

    endpoint: Endpoint
    method: str
    path: str
    body: str = ""
    content_type: str = "application/json"
    clients: int = 32
    first: int = 0
    span: int = 1_000_000_000
    seconds: float = 0
    requests: int = 0
    per_second: float = 0

    def encoded(self) -> Iterator[bytes]:
        """The requests, one after another."""
        host, port = self.endpoint.address
        head = (
            f"%s HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {self.endpoint.token}\r\n"
            "User-Agent: bench\r\nAccept: application/json\r\n"
        )
        counted = "%d" in self.path
        number = 0
        while not self.requests or number < self.requests:
            name = str(self.first + number % self.span)
            number += 1
            line = f"{self.method} {self.path.replace('%d', name) if counted else self.path}"
            if not self.body:
                yield (head.replace("%s", line, 1) + "\r\n").encode()
                continue
            # Bodies also carry a number that never repeats, so that every patch changes something.
            body = self.body.replace("%d", name).replace("%n", str(number))
            text = head.replace("%s", line, 1) + f"Content-Type: {self.content_type}\r\nContent-Length: {len(body)}"
            yield f"{text}\r\n\r\n{body}".encode()


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The result of a job."""

    answered: int
    refused: dict[int, int]
    seconds: float
    p50_ms: float
    p99_ms: float
    worst_ms: float
    cpu_seconds: float  # this process's own
    last_refusal: str = ""

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds


def tls(endpoint: Endpoint) -> ssl.SSLContext:
    """Trusts the server's CA."""
    return ssl.create_default_context(cafile=endpoint.ca_file)


class TlsExchange(asyncio.Protocol):
    """One connection that sends the next request as soon as it has the answer."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._transport: asyncio.Transport | None = None
        self._sent_at = 0.0
        self._pieces: list[bytes] = []
        self._missing = -1  # bytes of the body still to come; -1: the head is not complete; -2: chunked

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # uvloop's transports are of no class of asyncio's

    def begin(self) -> None:
        """Send the first request."""
        self._ask()

    def data_received(self, data: bytes) -> None:
        if self._missing >= 0:
            self._missing -= len(data)
            if self._missing <= 0:
                self._answered()
        elif self._missing == -2:
            if data.endswith(_END_OF_CHUNKS):
                self._answered()
        else:
            self._read_head(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.lost(exc)

    def _read_head(self, data: bytes) -> None:
        self._pieces.append(data)
        head = data if len(self._pieces) == 1 else b"".join(self._pieces)
        end = head.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(head, 0, end)
        body = len(head) - end - 4
        if length is None:
            self._missing = -2
            done = head.endswith(_END_OF_CHUNKS)
        else:
            self._missing = int(length[1]) - body
            done = self._missing <= 0
        if done:
            self._answered()

    def _answered(self) -> None:
        head = self._pieces[0]
        self._pieces = []
        self._missing = -1
        if self._run.count(int(head[9:12]), time.perf_counter() - self._sent_at, head):
            wait = self._run.pause_seconds - (time.perf_counter() - self._sent_at)
            if wait > 0:
                asyncio.get_running_loop().call_later(wait, self._ask)
            else:
                self._ask()
        elif self._transport is not None:
            self._transport.abort()

    def _ask(self) -> None:
        assert self._transport is not None
        request = next(self._run.requests, None)
        if request is None:
            self._transport.abort()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)


class _Run:
    """The state that the connections of one job share."""

    def __init__(self, job: Job) -> None:
        self.requests = job.encoded()
        self.pause_seconds = job.clients / job.per_second if job.per_second else 0.0
        self.latencies: list[float] = []
        self.refused: dict[int, int] = {}
        self.last_refusal = ""
        self.done = asyncio.Event()
        self._open = job.clients
        self.ends_at = float("inf")

    def count(self, status: int, latency: float, answer: bytes) -> bool:
        """Record an answer; returns whether to continue."""
        if 200 <= status < 300:
            self.latencies.append(latency)
        else:
            self.refused[status] = self.refused.get(status, 0) + 1
            self.last_refusal = answer[:1000].decode(errors="replace")
        return time.perf_counter() < self.ends_at

    def lost(self, error: Exception | None) -> None:
        if error is not None:
            self.refused[0] = self.refused.get(0, 0) + 1
            self.last_refusal = repr(error)
        self._open -= 1
        if self._open == 0:
            self.done.set()


async def _work(job: Job) -> Result:
    loop = asyncio.get_running_loop()
    context = tls(job.endpoint)
    host, port = job.endpoint.address
    run = _Run(job)
    # Handshakes are not what is measured: connections exist before the clock starts.
    made = await asyncio.gather(
        *(loop.create_connection(lambda: TlsExchange(run), host, port, ssl=context) for _ in range(job.clients))
    )
    began, cpu = time.perf_counter(), _cpu()
    if job.seconds:
        run.ends_at = began + job.seconds
    for _, protocol in made:
        protocol.begin()
    await run.done.wait()
    seconds = time.perf_counter() - began
    latencies = sorted(run.latencies) or [0.0]
    return Result(
        answered=len(run.latencies),
        refused=run.refused,
        seconds=seconds,
        p50_ms=latencies[len(latencies) // 2] * 1000,
        p99_ms=latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] * 1000,
        worst_ms=latencies[-1] * 1000,
        cpu_seconds=_cpu() - cpu,
        last_refusal=run.last_refusal,
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def drive(job: Job) -> Result:
    """Run a job in its own process."""
    command = [sys.executable, "-m", "bench.apiserver_load"]
    done = subprocess.run(command, input=msgspec.json.encode(job), stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Result)


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.buffer.write(msgspec.json.encode(runner.run(_work(asked))))
