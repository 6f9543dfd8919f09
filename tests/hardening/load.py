"""Clients that write, read and watch a few objects, and record what they were told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Any

import aiohttp

from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.history import (
    Action,
    Create,
    Delete,
    Event,
    Get,
    History,
    Outcome,
    Put,
    Refused,
    Saw,
    Stored,
)
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi

PATH = "/api/v1/namespaces/default/configmaps"


class Load:
    """So many clients, each doing one thing after another to objects that all of them share, until its server dies.

    The choices come from the seed; the timing, and so what they meet, comes from the machine.
    """

    def __init__(self, plane: ControlPlane, *, seed: int, clients: int = 6, keys: int = 8) -> None:
        self.history = History(RealClock())
        self.keys = [f"key-{number}" for number in range(keys)]
        self._plane = plane
        self._randomness = SeededRandomness(seed)
        self._clients = clients
        self._written = 0
        self._acknowledged = 0
        self._enough = asyncio.Event()
        self._target = 0

    async def run_until(self, acknowledged: int) -> None:
        """Return when so many more writes were acknowledged; the clients go on until they cannot."""
        self._target = self._acknowledged + acknowledged
        self._enough.clear()
        await self._enough.wait()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The clients run inside. Leaving waits until every one has lost its server."""
        async with RawApi(self._plane.access()) as api, asyncio.TaskGroup() as group:
            for number in range(self._clients):
                group.create_task(self._client(api, f"client-{number}"), name=f"client-{number}")
            yield

    async def read_everything(self) -> None:
        """One more client looks at every object."""
        async with RawApi(self._plane.access()) as api:
            for key in self.keys:
                await self._do(api, "reader", key, Get())

    async def _client(self, api: RawApi, name: str) -> None:
        known: dict[str, int] = {}  # the newest revision this client has seen of each object
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            while True:
                key = self._randomness.choice(self.keys)
                outcome = await self._do(api, name, key, self._next(known.get(key)))
                if isinstance(outcome, Stored | Saw) and outcome.revision:
                    known[key] = outcome.revision

    def _next(self, known: int | None) -> Action:
        self._written += 1
        value = f"value-{self._written}"
        expected = known if self._randomness.random() < 0.5 else None
        draw = self._randomness.random()
        if draw < 0.35:
            return Create(value)
        if draw < 0.75:
            return Put(value, expected)
        return Delete(expected) if draw < 0.85 else Get()

    async def _do(self, api: RawApi, client: str, key: str, action: Action) -> Outcome:
        operation = self.history.call(client, key, action)
        outcome = _read(action, await _send(api, key, action))
        self.history.answer(operation, outcome)
        if isinstance(outcome, Stored):
            self._acknowledged += 1
            if self._acknowledged >= self._target:
                self._enough.set()
        return outcome


async def _send(api: RawApi, key: str, action: Action) -> Answer:
    match action:
        case Create(value=value):
            return await api.post(PATH, config_map(key, {"v": value}))
        case Put(value=value, expected=expected):
            change: dict[str, Any] = {"data": {"v": value}}
            if expected is not None:
                change["metadata"] = {"resourceVersion": str(expected)}
            return await api.patch(f"{PATH}/{key}", change)
        case Delete(expected=None):
            return await api.delete(f"{PATH}/{key}")
        case Delete(expected=expected):
            options = {"kind": "DeleteOptions", "apiVersion": "v1"}
            return await api.delete(f"{PATH}/{key}", {**options, "preconditions": {"resourceVersion": str(expected)}})
        case Get():
            return await api.get(f"{PATH}/{key}")


def _read(action: Action, answer: Answer) -> Outcome:
    if isinstance(action, Get):
        if answer.code == 404:
            return Saw(None)
        return Saw(value_of(answer.expect(200)), revision_of(answer.json))
    if answer.code in {404, 409}:
        return Refused(exists=answer.code == 409)
    stored = answer.expect(200, 201)
    return Stored() if isinstance(action, Delete) else Stored(revision_of(stored))


def revision_of(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def value_of(obj: dict[str, Any]) -> str:
    value: str = obj["data"]["v"]
    return value


async def watch_from(api: RawApi, version: int, events: list[Event], keys: Collection[str], *, end: str = "") -> None:
    """Note what a watch tells of these objects until it breaks, or until it tells of the one called ``end``."""
    with contextlib.suppress(EOFError, aiohttp.ClientError, OSError, TimeoutError):
        async with api.watch(PATH, resourceVersion=str(version)) as watch:
            while True:
                event = await watch.next()
                obj = event["object"]
                name = obj["metadata"]["name"]
                if name in keys:
                    events.append(Event(event["type"], name, value_of(obj), revision_of(obj)))
                elif name == end:
                    return
