"""The observer of shutdowns on the embedded API server."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kube_fairlead.api import core_v1, wire
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.lifecycle_v1alpha1 import (
    ClaimStatus,
    FrozenTransition,
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import DRIVER_SHUTDOWN, FINALIZER_CLAIMED, NODE_SHUTDOWN
from kube_fairlead.client.patches import MergePatch, StrategicMergePatch
from kube_fairlead.controllers.shutdown_observer import shutdown_observer
from tests.unit.controllers.stage import a_node, running
from tests.unit.election.world import World

SILENCE = dt.timedelta(seconds=40)


async def a_shutdown(world: World, *, boot_id: str = "boot-1") -> None:
    node = await a_node(world, "n")
    await status(world, nodeInfo={"bootID": "boot-1"})
    now = world.clock.now()
    events = world.admin.of(LifecycleEvent)
    made = await events.create(
        LifecycleEvent(
            metadata=ObjectMeta(name="s", finalizers=(FINALIZER_CLAIMED,)),
            spec=LifecycleEventSpec(transition_name=NODE_SHUTDOWN.name, binding_node="n"),
        )
    )
    claimed = LifecycleEventStatus(
        claim_status="Claimed",
        driver=DRIVER_SHUTDOWN,
        claimed_by="node/n",
        node_uid=node.uid,
        claim_time=now,
        sla=now + dt.timedelta(minutes=5),
        transition=FrozenTransition(start=NODE_SHUTDOWN.start, end=NODE_SHUTDOWN.end),
        options={"node-boot-id": boot_id},
    )
    await events.update_status(wire.replace(made, status=claimed))
    await says(world, NODE_SHUTDOWN.start)


async def status(world: World, **fields: Any) -> None:
    await world.admin.of(Node).patch("n", StrategicMergePatch({"status": fields}), subresource="status")


async def says(world: World, state: str) -> None:
    condition = {"type": "LifecycleTransition", "status": "True", "reason": state, "message": "m"}
    await status(world, conditions=[condition])


async def taint(world: World, *keys: str) -> None:
    taints = [{"key": key, "effect": "NoSchedule"} for key in keys]
    await world.admin.of(Node).patch("n", MergePatch({"spec": {"taints": taints}}))


async def tainted(world: World) -> bool:
    node = await world.admin.of(Node).get("n")
    return "node.kubernetes.io/out-of-service" in [taint.key for taint in node.spec.taints]


async def only_ours(world: World) -> None:
    """The cloud says no more that the machine is off."""
    node = await world.admin.of(Node).get("n")
    left = [wire.to_dict(one) for one in node.spec.taints if "cloudprovider" not in one.key]
    await world.admin.of(Node).patch("n", MergePatch({"spec": {"taints": left}}))


async def event(world: World) -> LifecycleEvent:
    return await world.admin.of(LifecycleEvent).get("s")


async def a_pod(world: World, name: str) -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    await world.admin.of(Pod).create(wire.from_dict(Pod, body))


async def test_a_node_that_said_it_was_done_and_is_silent_went_down(world: World) -> None:
    await a_shutdown(world)
    await a_pod(world, "forgotten")
    async with running(world, shutdown_observer(silence=SILENCE)) as metrics:
        await world.clock.advance(100)
        assert (await event(world)).claim_status is ClaimStatus.CLAIMED  # silence alone may be a partition
        await says(world, NODE_SHUTDOWN.end)
        await world.clock.advance(10)
        seen = await event(world)
        assert seen.claim_status is ClaimStatus.SUCCEEDED
        assert "all pods had ended, and the node has not reported since" in seen.status.message
        assert seen.status.message.endswith("pods left behind: default/forgotten")
        assert 'fairlead_shutdowns_observed_total{status="Succeeded"} 1.0' in metrics.exposition().decode()


async def test_pods_that_the_next_boot_has_started_are_not_left_behind(world: World) -> None:
    await a_pod(world, "forgotten")
    await a_pod(world, "agent")  # it is never ended, and runs again
    await world.clock.advance(2)
    await a_shutdown(world, boot_id="boot-0")
    await world.clock.advance(2)
    await a_pod(world, "new")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await world.admin.of(Pod).patch("agent", StrategicMergePatch(ready), namespace="default", subresource="status")
    async with running(world, shutdown_observer(silence=SILENCE)):
        await world.clock.advance(10)
        message = (await event(world)).status.message
    assert message == "the node shut down and started again; pods left behind: default/forgotten"


async def test_a_node_that_still_talks_is_not_down(world: World) -> None:
    await a_shutdown(world)
    await says(world, NODE_SHUTDOWN.end)
    await world.admin.of(core_v1.Namespace).create(core_v1.Namespace(metadata=ObjectMeta(name="fairlead-node-lease")))
    leases = world.admin.of(Lease)
    lease = await leases.create(Lease(metadata=ObjectMeta(name="n", namespace="fairlead-node-lease")))
    async with running(world, shutdown_observer(silence=SILENCE)):
        for _ in range(28):
            lease = await leases.update(wire.replace(lease, spec=LeaseSpec(renew_time=world.clock.now())))
            await world.clock.advance(10)
            assert (await event(world)).claim_status is ClaimStatus.CLAIMED
        for _ in range(4):
            lease = await leases.update(wire.replace(lease, spec=LeaseSpec(renew_time=world.clock.now())))
            await world.clock.advance(10)
        seen = await event(world)
        assert seen.claim_status is ClaimStatus.SLA_EXPIRED
        assert "it still reports; all its pods had ended" in seen.status.message


async def test_a_node_that_vanished_in_the_middle_is_not_known_to_be_down(world: World) -> None:
    await a_shutdown(world)
    async with running(world, shutdown_observer(silence=SILENCE)):
        await world.clock.advance(295)
        assert (await event(world)).claim_status is ClaimStatus.CLAIMED
        await world.clock.advance(15)
        seen = await event(world)
        assert seen.claim_status is ClaimStatus.SLA_EXPIRED
        assert "which may be a network partition; it had not reported that its pods have ended" in seen.status.message


async def test_another_boot_id_is_proof(world: World) -> None:
    await a_shutdown(world)
    async with running(world, shutdown_observer(silence=SILENCE)):
        await world.clock.advance(20)
        await status(world, nodeInfo={"bootID": "boot-2"})
        await world.clock.advance(10)
        seen = await event(world)
        assert (seen.claim_status, seen.status.message) == (
            ClaimStatus.SUCCEEDED,
            "the node shut down and started again",
        )


async def test_a_node_whose_boot_id_was_not_known_proves_nothing_by_it(world: World) -> None:
    await a_shutdown(world, boot_id="")
    async with running(world, shutdown_observer(silence=SILENCE)):
        await status(world, nodeInfo={"bootID": "boot-2"})
        await world.clock.advance(20)
        assert (await event(world)).claim_status is ClaimStatus.CLAIMED


@pytest.mark.parametrize("wanted", [True, False])
async def test_volumes_are_let_go_only_when_asked_for_and_the_cloud_says_that_it_is_off(
    world: World, wanted: bool
) -> None:
    await a_shutdown(world)
    await says(world, NODE_SHUTDOWN.end)
    async with running(world, shutdown_observer(silence=SILENCE, out_of_service=wanted)):
        await world.clock.advance(60)
        assert (await event(world)).claim_status is ClaimStatus.SUCCEEDED
        assert not await tainted(world)
        await taint(world, "node.cloudprovider.kubernetes.io/shutdown")
        await world.clock.advance(10)
        assert await tainted(world) is wanted
        if not wanted:
            return
        await only_ours(world)
        await world.clock.advance(10)
        assert await tainted(world)
        await status(world, conditions=[{"type": "Ready", "status": "True"}])
        await world.clock.advance(10)
        assert not await tainted(world)


async def test_volumes_are_let_go_and_held_again_with_the_event_long_gone(world: World) -> None:
    await a_shutdown(world)
    await says(world, NODE_SHUTDOWN.end)
    made = await event(world)
    await world.admin.of(LifecycleEvent).update(wire.replace_metadata(made, finalizers=()))
    await world.admin.of(LifecycleEvent).delete("s")
    async with running(world, shutdown_observer(silence=SILENCE, out_of_service=True)):
        await taint(world, "node.cloudprovider.kubernetes.io/shutdown")
        await world.clock.advance(10)
        assert await tainted(world)
    # The node comes back while no observer runs.
    await only_ours(world)
    await status(world, conditions=[{"type": "Ready", "status": "True"}])
    async with running(world, shutdown_observer(silence=SILENCE, out_of_service=True)):
        await world.clock.advance(10)
        assert not await tainted(world)


async def test_a_machine_that_is_off_without_having_ended_its_pods_keeps_its_volumes(world: World) -> None:
    await a_shutdown(world)
    async with running(world, shutdown_observer(silence=SILENCE, out_of_service=True)):
        await taint(world, "node.cloudprovider.kubernetes.io/shutdown")
        await world.clock.advance(60)
        assert not await tainted(world)


async def test_the_taint_of_an_operator_is_left_alone(world: World) -> None:
    await a_shutdown(world)
    await taint(world, "node.kubernetes.io/out-of-service")
    await status(world, conditions=[{"type": "Ready", "status": "True"}])
    async with running(world, shutdown_observer(silence=SILENCE, out_of_service=True)):
        await world.clock.advance(10)
        assert await tainted(world)
