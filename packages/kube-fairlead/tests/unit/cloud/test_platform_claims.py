from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from kube_fairlead import manager
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.cloud.enforcement import Manager, access_manifests
from kube_fairlead.cloud.platform_claims import CHECK, PlatformClaim
from kube_fairlead.cloud.wellknown import ANNOTATION_PLATFORMS
from tests.unit.cloud.world import World

NAMESPACE = "kube-system"


class Claimant:
    """A manager that leads under a Lease of its own, and notes whether its controllers run."""

    def __init__(self, world: World, lease: str, *platforms: str) -> None:
        self.world, self.lease = world, lease
        self._works = False
        self.stopping = asyncio.Event()
        self.context = manager.Context(
            name="cloud-controllers",
            client=world.manager,
            recorder=EventRecorder(world.manager, controller="test", instance="test"),
            stopping=self.stopping,
            metrics=DiscardedMetrics(),
            gates=FeatureGates(),
            health=manager.HealthChecks(),
        )
        self.claim = PlatformClaim(self.context, namespace=NAMESPACE, lease=lease, platforms=platforms)

    async def _work(self, stopping: asyncio.Event) -> None:
        self._works = True
        await stopping.wait()
        self._works = False

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        await hold(self.world, self.lease)
        async with tasks.TaskScope(self.lease) as scope:
            scope.start(self.claim.run(self._work), name="claim")
            try:
                yield
            finally:
                self.stopping.set()
        await renew(self.world, self.lease, holder=None)

    def is_working(self) -> bool:
        return self._works

    @property
    def readiness(self) -> str:
        return self.context.ready.report_one(CHECK).text

    async def claims(self) -> str | None:
        found = await self.world.admin.of(Lease).get(self.lease, namespace=NAMESPACE)
        return (found.metadata.annotations or {}).get(ANNOTATION_PLATFORMS)


async def hold(world: World, name: str) -> None:
    metadata = ObjectMeta(name=name, namespace=NAMESPACE)
    spec = LeaseSpec(holder_identity=f"{name}-pod", lease_duration_seconds=15, renew_time=world.clock.now())
    await world.admin.of(Lease).create(Lease(metadata=metadata, spec=spec))


async def renew(world: World, name: str, *, holder: str | None = "pod") -> None:
    moment = f"{world.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    patch = MergePatch({"spec": {"renewTime": moment, "holderIdentity": holder}})
    await world.admin.of(Lease).patch(name, patch, namespace=NAMESPACE)


async def test_one_that_works_keeps_the_other_waiting_until_it_ends(world: World) -> None:
    first, second = Claimant(world, "b", "lab"), Claimant(world, "a", "lab", "extra")
    async with second_after(first, second):
        assert first.is_working()
        assert not second.is_working()
        assert "Lease b, held by b-pod, names lab too; the controllers do not start" in second.readiness
        assert first.readiness.startswith("ok")
        for _ in range(3):
            await world.clock.advance(10)
            await renew(world, "b")
        assert not second.is_working()
        first.stopping.set()
        await world.clock.settle()
        await renew(world, "b", holder=None)
        await world.clock.advance(3)
        assert second.is_working()
        assert second.readiness == "ok: extra,lab"


@contextlib.asynccontextmanager
async def second_after(first: Claimant, second: Claimant) -> AsyncIterator[None]:
    async with first.leading():
        await first.world.clock.settle()
        async with second.leading():
            await first.world.clock.settle()
            yield


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
async def test_of_two_that_begin_at_once_one_works(world: World, names: tuple[str, str]) -> None:
    claimants = [Claimant(world, name, "lab") for name in names]
    async with claimants[0].leading(), claimants[1].leading():
        await world.clock.advance(10)
        assert [one.is_working() for one in claimants].count(True) == 1


async def test_an_expired_lease_and_other_platforms_hold_up_nothing(world: World) -> None:
    await hold(world, "dead")
    await hold(world, "other")
    for name, platforms in (("dead", "lab"), ("other", "aws")):
        patch = MergePatch({"metadata": {"annotations": {ANNOTATION_PLATFORMS: platforms}}})
        await world.admin.of(Lease).patch(name, patch, namespace=NAMESPACE)
    claimant = Claimant(world, "a", "lab")
    async with claimant.leading():
        await world.clock.advance(10)
        assert not claimant.is_working()  # its holder may live, whatever the clock says that it wrote
        await world.clock.advance(8)
        assert claimant.is_working()


async def test_a_claim_that_was_taken_away_is_written_again(world: World) -> None:
    claimant = Claimant(world, "a", "lab")
    async with claimant.leading():
        await world.clock.settle()
        patch = MergePatch({"metadata": {"annotations": None}})
        await world.admin.of(Lease).patch("a", patch, namespace=NAMESPACE)
        await world.clock.advance(11)
        assert await claimant.claims() == "lab"
        assert claimant.is_working()


async def test_work_ends_when_another_claimed_while_the_claim_was_gone(world: World) -> None:
    claimant = Claimant(world, "b", "lab")
    async with claimant.leading():
        await world.clock.settle()
        await world.admin.of(Lease).patch("b", MergePatch({"metadata": {"annotations": None}}), namespace=NAMESPACE)
        other = Claimant(world, "a", "lab")
        async with other.leading():
            await world.clock.settle()
            assert other.is_working()
            await world.clock.advance(11)
            assert not claimant.is_working()


def test_the_account_may_read_the_leases_of_its_namespace_and_write_its_own_alone() -> None:
    made = access_manifests(Manager(provider="aws", platforms=frozenset({"aws"})))
    [role] = [one for one in made if one["kind"] == "Role"]
    rules = [one for one in role["rules"] if one["resources"] == ["leases"] and "resourceNames" not in one]
    assert sorted(verb for rule in rules for verb in rule["verbs"]) == ["create", "list"]
