from __future__ import annotations

from kube_fairlead.api.core_v1 import ConfigMap
from kube_fairlead.cloud.enforcement import Manager, access_manifests
from kube_fairlead.cloud.unannounced_deletions import UnannouncedDeletions, record_name
from tests.unit.cloud.world import World, node


def record(world: World) -> UnannouncedDeletions:
    return UnannouncedDeletions(world.manager, namespace="kube-system", name="vanished")


async def test_five_minutes_are_remembered_whoever_asks(world: World) -> None:
    first, second = await world.create(node("n1")), await world.create(node("n2"))
    unannounced_deletions = record(world)
    assert await unannounced_deletions.recent(world.clock.now()) == set()
    await unannounced_deletions.add([first], world.clock.now())
    await world.clock.advance(200)
    await unannounced_deletions.add([second], world.clock.now())
    for one in (unannounced_deletions, record(world)):
        assert await one.recent(world.clock.now()) == {first.uid, second.uid}
    await world.clock.advance(101)
    for one in (unannounced_deletions, record(world)):
        assert await one.recent(world.clock.now()) == {second.uid}
    await unannounced_deletions.add([], world.clock.now())
    kept = await world.admin.of(ConfigMap).get("vanished", namespace="kube-system")
    assert set(kept.data) == {second.uid}  # what is over is not kept


async def test_what_cannot_be_read_counts_and_what_is_far_ahead_does_not(world: World) -> None:
    made = node("n1", uid="a")
    await record(world).add([made], world.clock.now())
    data = {"b": "gibberish", "c": "2999-01-01T00:00:00Z n3"}
    await world.admin.of(ConfigMap).modify(
        "vanished", lambda found: ConfigMap(metadata=found.metadata, data=found.data | data), namespace="kube-system"
    )
    assert await record(world).recent(world.clock.now()) == {"a", "b"}


def test_the_account_may_keep_the_record() -> None:
    manager = Manager(provider="aws", platforms=frozenset({"aws"}))
    [role] = [one for one in access_manifests(manager) if one["kind"] == "Role"]
    [rule] = [one for one in role["rules"] if one["resources"] == ["configmaps"] and "resourceNames" in one]
    assert rule["resourceNames"] == [record_name(manager.name)]
    assert rule["verbs"] == ["get", "patch"]
