"""Typed kinds through the client: what they name, and what they do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kube_fairlead.api import coordination_v1, core_v1, wire
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.watch import Change, ChangeType
from kube_fairlead_lab.testing.manifests import pod
from tests.contract.client.conftest import CONFIG_MAPS


async def test_every_verb_with_a_typed_kind(admin: Client, namespace: str) -> None:
    maps = admin.of(core_v1.ConfigMap)
    version = (await maps.list(namespace=namespace)).resource_version
    made = await maps.create(core_v1.ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace), data={"k": "1"}))
    assert await maps.get("a", namespace=namespace) == made
    changed = await maps.update(wire.replace(made, data={"k": "2"}))
    assert changed.data == {"k": "2"}
    with pytest.raises(api_errors.Conflict):
        await maps.update(wire.replace(made, data={"k": "3"}))
    patched = await maps.patch("a", MergePatch({"data": {"more": "x"}}), namespace=namespace)
    assert patched.data == {"k": "2", "more": "x"}
    applied = await maps.apply(
        core_v1.ConfigMap(metadata=ObjectMeta(name="b", namespace=namespace), data={"k": "1"}), field_manager="me"
    )
    page = await maps.list(namespace=namespace, field_selector="metadata.name!=kube-root-ca.crt")
    assert page.items == [patched, applied]
    assert await maps.delete("a", namespace=namespace) is None
    gone = await maps.delete_collection(namespace=namespace, field_selector="metadata.name=b")
    assert [item.name for item in gone.items] == ["b"]
    async with maps.watch(namespace=namespace, resource_version=version) as events:
        seen = [await anext(events) for _ in range(6)]
    assert [(event.type, event.object.name) for event in seen if isinstance(event, Change)] == [
        (ChangeType.ADDED, "a"),
        (ChangeType.MODIFIED, "a"),
        (ChangeType.MODIFIED, "a"),
        (ChangeType.ADDED, "b"),
        (ChangeType.DELETED, "a"),
        (ChangeType.DELETED, "b"),
    ]


async def test_a_lease_keeps_its_microseconds(admin: Client, namespace: str) -> None:
    leases = admin.of(coordination_v1.Lease)
    now = admin.clock.now()
    spec = coordination_v1.LeaseSpec(holder_identity="me", renew_time=now, lease_duration_seconds=15)
    made = await leases.create(coordination_v1.Lease(metadata=ObjectMeta(name="l", namespace=namespace), spec=spec))
    assert made.spec.renew_time == now


async def test_fields_that_a_kind_does_not_name_survive_an_update(admin: Client, namespace: str) -> None:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 7}
    spec = {"containers": [{"name": "main", "image": "x", "livenessProbe": probe}], "enableServiceLinks": False}
    plain = admin.of(admin.scheme.by_class(core_v1.Pod).gvr)
    await plain.create(pod("p", spec=spec), namespace=namespace)
    pods = admin.of(core_v1.Pod)
    read = (await pods.list(namespace=namespace)).items[0]
    await pods.update(wire.replace_metadata(read, labels={"touched": "yes"}))
    after = await plain.get("p", namespace=namespace)
    assert after["metadata"]["labels"] == {"touched": "yes"}
    assert after["spec"]["containers"][0]["livenessProbe"]["periodSeconds"] == 7
    assert after["spec"]["enableServiceLinks"] is False


async def test_the_own_namespace_is_the_default(admin: Client, unique_name: Callable[[str], str]) -> None:
    name = unique_name("map")
    made = await admin.of(core_v1.ConfigMap).create(core_v1.ConfigMap(metadata=ObjectMeta(name=name)))
    assert made.namespace == admin.namespace == "default"
    assert (await admin.of(CONFIG_MAPS).get(name))["metadata"]["uid"] == made.uid
    await admin.of(core_v1.ConfigMap).delete(name)


async def test_a_lean_informer(admin: Client, namespace: str) -> None:
    maps = admin.of(core_v1.ConfigMap)
    await maps.create(core_v1.ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace), data={"k": "1"}))
    seen: list[core_v1.ConfigMap] = []
    informer = Informer(admin.of(core_v1.ConfigMap, keep=False), namespace=namespace, field_selector="metadata.name=a")
    informer.add_handler(Handler(on_add=seen.append))
    async with informer.running():
        await informer.wait_synced()
        assert [item.data for item in seen] == [{"k": "1"}]
        assert wire.original(seen[0]) is None
