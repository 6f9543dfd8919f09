"""Clients that connect and disconnect: a load generator in its own process.

`handshake` connects and disconnects. `watch` connects, opens a watch, reads its first event and disconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
import time

import msgspec
import uvloop

from bench.apiserver_load import Endpoint, tls

__all__ = ["Churn", "churn"]


@dataclasses.dataclass(frozen=True, slots=True)
class Churn:
    """A number of clients, each of which connects again as soon as it has disconnected."""

    endpoint: Endpoint
    path: str = ""  # of a watch; empty: only handshakes
    clients: int = 50
    seconds: float = 5.0


async def _work(job: Churn) -> int:
    context = tls(job.endpoint)
    host, port = job.endpoint.address
    ends_at = time.perf_counter() + job.seconds
    done = 0
    ask = (
        f"GET {job.path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {job.endpoint.token}\r\n"
        "Accept: application/json\r\n\r\n"
    ).encode()

    async def one() -> None:
        nonlocal done
        while time.perf_counter() < ends_at:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
                if job.path:
                    writer.write(ask)
                    await reader.readuntil(b"\r\n\r\n")
                    await reader.read(64)
                writer.transport.abort()
                done += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(job.clients):
            group.create_task(one())
    return done


def churn(job: Churn) -> int:
    """Run the clients in their own process; returns the number of connections."""
    command = [sys.executable, "-m", "bench.apiserver_churn"]
    ended = subprocess.run(command, input=msgspec.json.encode(job), stdout=subprocess.PIPE, check=True)
    return int(ended.stdout)


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Churn)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.write(str(runner.run(_work(asked))))
