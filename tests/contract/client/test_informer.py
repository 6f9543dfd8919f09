"""An informer on a real server: exactly what happened, across restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.base import tasks
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.objects import resource_version_of, uid_of
from kube_fairlead.client.verbs import Api
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map
from tests.contract.client.conftest import CONFIG_MAPS, connect

Object = dict[str, Any]


class Listener:
    """Writes down what it is told, and lets a test wait for it."""

    def __init__(self, informer: Informer[Object]) -> None:
        self.told: list[tuple[str, str]] = []
        self._news = asyncio.Event()
        informer.add_handler(
            Handler(
                on_add=lambda item: self._hear("ADDED", item),
                on_update=lambda _, item: self._hear("MODIFIED", item),
                on_delete=lambda item: self._hear("DELETED", item),
            )
        )

    def _hear(self, kind: str, item: Object) -> None:
        self.told.append((kind, item["metadata"]["name"]))
        self._news.set()

    async def wait_for(self, kind: str, name: str) -> None:
        while (kind, name) not in self.told:
            self._news.clear()
            await self._news.wait()


@pytest.mark.parametrize("streaming_list", [False, True])
async def test_an_informer_sees_what_happens(admin: Client, namespace: str, *, streaming_list: bool) -> None:
    maps = admin.of(CONFIG_MAPS)
    await maps.create(config_map("before"), namespace=namespace)
    informer = Informer(
        maps,
        namespace=namespace,
        field_selector="metadata.name!=kube-root-ca.crt",
        streaming_list=streaming_list,
    )
    listener = Listener(informer)
    async with informer.running():
        await informer.wait_synced()
        assert listener.told == [("ADDED", "before")]
        made = await maps.create(config_map("a"), namespace=namespace)
        await maps.update({**made, "data": {"k": "v"}})
        await maps.delete("a", namespace=namespace)
        await listener.wait_for("DELETED", "a")
    assert listener.told == [("ADDED", "before"), ("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


class Writer:
    """Creates and deletes objects one after the other, insisting on each, and knows what really happened."""

    def __init__(self, maps: Api[Object]) -> None:
        self._maps = maps
        self._number = 0
        self.truth: list[tuple[str, str]] = []

    async def step(self) -> None:
        """One object more, and every third one gone again."""
        self._number += 1
        name = f"object-{self._number:04}"
        await self._insist(name, present=True)
        self.truth.append(("ADDED", name))
        if self._number % 3 == 0:
            await self._insist(name, present=False)
            self.truth.append(("DELETED", name))

    async def write_until(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            await self.step()

    async def _insist(self, name: str, *, present: bool) -> None:
        while True:
            try:
                if present:
                    await self._maps.create(config_map(name), namespace="default")
                else:
                    await self._maps.delete(name, namespace="default")
            except (api_errors.AlreadyExists, api_errors.NotFound):
                return  # an earlier attempt got through, and only its answer was lost
            except (errors.TransportError, api_errors.ApiError):
                continue
            return


@pytest.mark.parametrize("hard", [False, True], ids=["stopped", "killed"])
async def test_no_event_is_lost_or_doubled_across_a_restart(
    isolated_control_plane: ControlPlane, *, hard: bool
) -> None:
    async with connect(isolated_control_plane.kubeconfig) as admin:
        maps = admin.of(CONFIG_MAPS)
        informer = Informer(maps, namespace="default", field_selector="metadata.name!=kube-root-ca.crt")
        listener = Listener(informer)
        writer = Writer(maps)
        enough = asyncio.Event()
        async with informer.running():
            await informer.wait_synced()
            for _ in range(30):
                await writer.step()
            async with tasks.TaskScope("test") as scope:
                scope.start(writer.write_until(enough), name="writer")
                await isolated_control_plane.restart(hard=hard)
                enough.set()
            for _ in range(30):
                await writer.step()
            await listener.wait_for(*writer.truth[-1])
            await listener.wait_for(*writer.truth[-2])
            listed = await maps.list(namespace="default", field_selector="metadata.name!=kube-root-ca.crt")
            assert {uid_of(item): resource_version_of(item) for item in informer.store} == {
                uid_of(item): resource_version_of(item) for item in listed.items
            }
    # An object may come and go while nobody can watch; all others are told once each, and in order.
    assert len(listener.told) == len(set(listener.told))
    missed = set(writer.truth) - set(listener.told)
    assert {kind for kind, _ in missed} in ({"ADDED", "DELETED"}, set())
    assert listener.told == [step for step in writer.truth if step not in missed] or _only_reordered(
        listener.told, writer.truth, missed
    )


def _only_reordered(told: list[tuple[str, str]], truth: list[tuple[str, str]], missed: set[tuple[str, str]]) -> bool:
    """After a relist changes of different objects may be told in another order; each object's own order holds."""
    return sorted(told) == sorted(step for step in truth if step not in missed)
