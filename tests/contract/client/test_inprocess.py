"""The embedded server and the client in one process: no socket, and time that stands still until it is moved."""

from __future__ import annotations

import pathlib

import pytest

from kube_fairlead.api import core_v1
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.server import ApiServer
from tests.inprocess import serving


def client_as(server: ApiServer, clock: VirtualClock, user: str, *groups: str) -> Client:
    who = UserInfo(name=user, groups=(*groups, "system:authenticated"))
    transport = InProcessTransport(server.app, clock=clock, extensions={"fairlead": {"user": who}})
    return Client(transport, clock=clock, randomness=SeededRandomness(1))


def config_map(name: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=ObjectMeta(name=name))


async def test_everything_in_one_process(tmp_path: pathlib.Path) -> None:
    clock = VirtualClock()
    told: list[str] = []
    async with serving(tmp_path, clock) as server, client_as(server, clock, "admin", "system:masters") as admin:
        maps = admin.of(core_v1.ConfigMap)
        informer = Informer(maps, namespace="default", field_selector="metadata.name!=kube-root-ca.crt")
        informer.add_handler(
            Handler(
                on_add=lambda item: told.append(f"+{item.name}"), on_delete=lambda item: told.append(f"-{item.name}")
            )
        )
        async with informer.running():
            await informer.wait_synced()
            for name in ("a", "b"):
                await maps.create(config_map(name))
            await maps.delete("a")
            await clock.settle()
            assert told == ["+a", "+b", "-a"]
            # Watches are renewed every few minutes; an hour of that passes at once, and loses nothing.
            await clock.advance(3600)
            await maps.create(config_map("c"))
            await clock.settle()
            assert told == ["+a", "+b", "-a", "+c"]
    assert tasks.live_tasks() == ()


async def test_forgotten_versions_are_expired_and_informers_list_again(tmp_path: pathlib.Path) -> None:
    clock = VirtualClock()
    async with serving(tmp_path, clock) as server, client_as(server, clock, "admin", "system:masters") as admin:
        maps = admin.of(core_v1.ConfigMap)
        for name in ("a", "b", "c"):
            await maps.create(config_map(name))
        page = await maps.list(namespace="default", limit=1)
        informer = Informer(maps, namespace="default")
        async with informer.running():
            await informer.wait_synced()
            # The newest change of a kind is never forgotten; what is before it is.
            await maps.delete("a")
            await maps.create(config_map("d"))
            await clock.advance(900)
            with pytest.raises(api_errors.Expired, match="too old to display a consistent list"):
                await maps.list(namespace="default", limit=1, continue_token=page.continue_token)
            with pytest.raises(api_errors.Expired, match="too old resource version"):
                async with maps.follow(namespace="default", resource_version=page.resource_version) as events:
                    await anext(events)
            assert {item.name for item in (await maps.list_all(namespace="default", limit=1)).items} >= {"b", "c"}
            await maps.delete("b")
            await clock.settle()
            assert informer.store.get("b", "default") is None


async def test_whoever_the_transport_says_is_asking(tmp_path: pathlib.Path) -> None:
    clock = VirtualClock()
    async with serving(tmp_path, clock) as server, client_as(server, clock, "jane") as jane:
        with pytest.raises(api_errors.Forbidden, match='User "jane" cannot list resource "nodes"'):
            await jane.of(core_v1.Node).list()
