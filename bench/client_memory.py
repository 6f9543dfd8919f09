"""The memory of a component's client: the agent runs on every node."""

from __future__ import annotations

import asyncio
import json
import pathlib
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from bench.harness import BenchmarkSkipped, Measurement, at_most, benchmark

BAR_MEGABYTES = 40

# Runs in a process of its own, which prints its memory at each step. It holds the client as the agent does: TLS with
# one authority's certificate, a token, an open connection.
CHILD = """
import asyncio, json, pathlib, sys

def resident_megabytes():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

steps = {"Python and asyncio": resident_megabytes()}
import kube_fairlead.client
from kube_fairlead.client import access, credentials
steps["after import kube_fairlead.client"] = resident_megabytes()

async def main(server, authority):
    who = credentials.StaticCredentials(credentials.Credential(authorization=credentials.bearer("t0ken")))
    there = access.Access(server=server, certificate_authority_file=pathlib.Path(authority), credentials=who)
    async with kube_fairlead.client.connect_to(there, component="bench") as client:
        steps["holding a client"] = resident_megabytes()
        await client.request("GET", "/version")
        steps["holding a client with a TLS connection"] = resident_megabytes()

asyncio.run(main(*sys.argv[1:]))
print(json.dumps(steps))
"""
ANSWER = b'{"major":"1","minor":"36"}'


@benchmark("client-memory")
def measure() -> Iterator[Measurement]:
    if not pathlib.Path("/proc/self/status").exists():
        raise BenchmarkSkipped("memory is read from /proc, which this system does not have")
    steps: dict[str, float] = asyncio.run(_measure())
    for what, megabytes in steps.items():
        bar = at_most(BAR_MEGABYTES) if what.startswith("holding") else None
        yield Measurement(what, megabytes, "MB", bar, "RSS of a fresh process")


async def _measure() -> dict[str, float]:
    from kube_fairlead_lab.testing.credentials import CertificateAuthority

    with tempfile.TemporaryDirectory() as folder:
        authority = CertificateAuthority.create(pathlib.Path(folder))
        certificate, key = authority.serving("bench")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            address = f"https://127.0.0.1:{port}"
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, address, str(authority.certificate_file), stdout=subprocess.PIPE
            )
            output, _ = await child.communicate()
    if child.returncode:
        raise RuntimeError(f"the measured process ended with {child.returncode}")
    steps: dict[str, float] = json.loads(output)
    return steps


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A minimal server that gives the same answer to every request."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(head + ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
