"""Story 2 of KEP-5673, Database Connection Draining, by the example operator and real connections."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi, RawWatch
from tests.examples.conftest import DATABASES
from tests.spec.kep5673.objects import Kind

CLOCK = RealClock()


class Connection:
    """A client of a database."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def say(self, word: str) -> None:
        self._writer.write(f"{word}\n".encode())
        assert await self.hear() == "ok"

    async def hear(self) -> str:
        """The next word; empty when the connection ended, one way or the other."""
        try:
            async with CLOCK.timeout(30):
                return (await self._reader.readline()).decode().strip()
        except ConnectionError:
            return ""

    def close(self) -> None:
        self._writer.close()


@dataclasses.dataclass
class Site:
    """An operator at work, and the clients of its databases."""

    kind: Kind
    watch: RawWatch
    clients: list[Connection] = dataclasses.field(default_factory=list)

    async def create(self, name: str, **spec: Any) -> int:
        """A database; its port."""
        await self.kind.create(name, spec=spec)
        event = await self.watch.until(lambda event: "serve" in event["object"].get("status", {}))
        port: int = event["object"]["status"]["serve"]["port"]
        return port

    async def connect(self, port: int, *, begin: bool = False) -> Connection:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
        self.clients.append(connection)
        await connection.say("begin" if begin else "hello")
        return connection

    async def gone(self) -> None:
        await self.watch.until(lambda event: event["type"] == "DELETED")


@pytest.fixture
async def site(
    control_plane: ControlPlane,
    api: RawApi,
    namespace: str,
    served: dict[str, Kind],
    program: Callable[..., ManagedProcess],
) -> AsyncIterator[Site]:
    kind = dataclasses.replace(served[DATABASES.name], api=api, namespace=namespace)
    kopf = (sys.executable, "-m", "kopf", "run", "--standalone", f"--namespace={namespace}")
    program("kopf", "/usr/bin/env", f"KUBECONFIG={control_plane.kubeconfig}", *kopf, DATABASES / "controller.py")
    async with api.watch(kind.path()) as watch:
        site = Site(kind, watch)
        yield site
        for client in site.clients:
            client.close()


async def test_normal_deletion_lets_transactions_finish(site: Site) -> None:
    port = await site.create("prod-db")
    idle, busy = await site.connect(port), await site.connect(port, begin=True)
    await site.kind.delete("prod-db", 600)
    assert [await idle.hear(), await idle.hear()] == ["draining", ""]
    assert await busy.hear() == "draining"
    with pytest.raises(ConnectionError):
        await site.connect(port)
    await busy.say("begin")  # it is still served: nobody cuts a transaction that has time
    assert not await site.kind.is_gone("prod-db")
    await busy.say("commit")
    assert await busy.hear() == ""
    await site.gone()


async def test_emergency_deletion_hurries_and_cuts_at_the_deadline(site: Site) -> None:
    port = await site.create("test-db")
    busy = await site.connect(port, begin=True)
    before = CLOCK.monotonic()
    await site.kind.delete("test-db", 3)
    assert [await busy.hear(), await busy.hear(), await busy.hear()] == ["draining", "hurry", ""]
    # Deadlines are whole seconds, and the fraction of the first is dropped.
    assert CLOCK.monotonic() - before >= 1.9
    await site.gone()


async def test_forced_deletion_cuts_at_once(site: Site) -> None:
    port = await site.create("temp-db")
    busy = await site.connect(port, begin=True)
    await site.kind.delete("temp-db", 0)
    assert await busy.hear() == ""
    await site.gone()


async def test_maintenance_that_becomes_an_emergency(site: Site) -> None:
    port = await site.create("prod-db")
    busy = await site.connect(port, begin=True)
    await site.kind.delete("prod-db", 600)
    assert await busy.hear() == "draining"
    await site.kind.delete("prod-db", 1)
    assert await busy.hear() == ""
    await site.gone()


async def test_a_plain_deletion_gets_the_databases_own_time(site: Site) -> None:
    port = await site.create("plain-db", drainSeconds=2)
    busy = await site.connect(port, begin=True)
    await site.kind.delete("plain-db")
    assert [await busy.hear(), await busy.hear(), await busy.hear()] == ["draining", "hurry", ""]
    await site.gone()
