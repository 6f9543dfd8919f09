"""Managers on the embedded API server: controllers that come and go with terms, and leave nothing behind."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from kube_fairlead.api import core_v1, wire
from kube_fairlead.api.apiextensions_v1 import CustomResourceDefinition
from kube_fairlead.base import gates
from kube_fairlead.client import Client
from kube_fairlead.election import LeadershipLost
from kube_fairlead.manager import Context, Controller, ServedDefinition, Switch
from kube_fairlead_lab.testing.manifests import custom_resource_definition
from tests.unit.election.world import LOCK, World
from tests.unit.manager.site import Copier, Site, config_map, copied


async def test_controllers_run_in_the_leader_only(site: Site, world: World) -> None:
    copiers = [Copier(), Copier()]
    leader = site.start("a", copiers[0].controller())
    await site.until_leads(leader)
    follower = site.start("b", copiers[1].controller())
    await world.admin.of(core_v1.ConfigMap).create(config_map("x"), namespace="default")
    await world.clock.advance(5)
    assert await copied(world) == {"x"}
    assert [copier.running for copier in copiers] == [1, 0]
    # A follower has its election and nothing else: no informer, no connection of a term.
    assert sum(transport.was_used for transport in follower.transports) == 1
    assert {request.path.rsplit("/leases", 1)[0] for request in follower.network.sent} == {
        "/apis/coordination.k8s.io/v1/namespaces/kube-system"
    }


async def test_leadership_moves_and_the_loop_moves_with_it(site: Site, world: World) -> None:
    copiers = {"a": Copier(), "b": Copier()}
    replicas = {}
    for name, copier in copiers.items():
        replicas[name] = site.start(name, copier.controller())
        await world.clock.advance(2)
    for turn in range(6):
        leader, follower = (replicas["a"], replicas["b"]) if turn % 2 == 0 else (replicas["b"], replicas["a"])
        assert leader.leads == [LOCK.name]
        await world.admin.of(core_v1.ConfigMap).create(config_map(f"x{turn}"), namespace="default")
        await world.clock.advance(1)
        assert f"x{turn}" in await copied(world)
        assert leader.manager.step_down() == [str(LOCK)]
        await site.until_leads(follower)
        assert [copier.running for copier in copiers.values()] == [int(turn % 2 == 1), int(turn % 2 == 0)]
    assert all(copier.most == 1 for copier in copiers.values())
    # Every term's connections were closed with it; the elections' are still open.
    for replica in replicas.values():
        connected = [transport for transport in replica.transports if transport.is_open and transport.was_used]
        assert len(connected) == 1 + len(replica.leads)
    text = replicas["a"].metrics.exposition().decode()
    assert 'fairlead_leader_terms_total{name="kube-system/test"} 4.0' in text
    assert 'fairlead_leader_term_ends_total{name="kube-system/test",reason="yield"} 3.0' in text
    assert 'fairlead_leader_election_master_status{name="kube-system/test"} 1.0' in text


async def test_health_comes_and_goes_with_the_term(site: Site, world: World) -> None:
    leader = site.start("a", Copier().controller())
    await site.until_leads(leader)
    follower = site.start("b", Copier().controller())
    await world.clock.advance(1)
    assert leader.manager.live.names == ["ping", "leaderElection", "copier"]
    assert leader.manager.live.report_one("leaderElection").text == "ok: leads, term 0"
    assert follower.manager.live.names == ["ping", "leaderElection"]
    assert follower.manager.live.report("healthz").text == "ok"
    assert follower.manager.live.report_one("leaderElection").text == "ok: follows a"
    assert follower.manager.ready.report("readyz").status == 200
    leader.manager.step_down()
    await site.until_leads(follower)
    assert leader.manager.live.names == ["ping", "leaderElection"]
    assert follower.manager.live.names == ["ping", "leaderElection", "copier"]


async def test_the_lease_gets_events(site: Site, world: World) -> None:
    leader = site.start("a", Copier().controller())
    await site.until_leads(leader)
    await world.clock.advance(5)
    events = (await world.admin.of(core_v1.Event).list(namespace="kube-system")).items
    assert [(event.reason, event.message) for event in events] == [("LeaderElection", "a became leader")]
    assert events[0].involved_object.kind == "Lease"


async def test_a_controller_that_fails_ends_the_process_and_frees_the_lease(site: Site, world: World) -> None:
    async def broken(_context: Context) -> None:
        raise LookupError("no such thing")

    replica = site.start("a", Controller(name="broken", run=broken), Copier().controller())
    await world.until(replica.task.done)
    failure = replica.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(LookupError) is not None
    assert (await world.record()).holder == ""


async def test_a_controller_may_end_by_itself(site: Site, world: World) -> None:
    async def once(_context: Context) -> None:
        return

    replica = site.start("a", Controller(name="once", run=once))
    await site.until_leads(replica)
    await world.clock.advance(60)
    assert replica.leads == [LOCK.name]
    assert replica.manager.live.names == ["ping", "leaderElection"]


async def test_stopping_waits_for_calls_that_hang(site: Site, world: World) -> None:
    """KEP-5366: the release waits until the controller has returned, however long the API server takes."""
    replica = site.start("a", Copier().controller(), shutdown_timeout_seconds=60)
    await site.until_leads(replica)
    replica.network.slow = lambda request: 20.0 if request.path.endswith("/secrets") else 0.0
    await world.admin.of(core_v1.ConfigMap).create(config_map("x"), namespace="default")
    await world.clock.advance(1)
    replica.task.cancel()
    await world.clock.advance(15)
    assert (await world.record()).holder == "a"
    assert await copied(world) == set()
    await world.until(replica.task.done)
    assert await copied(world) == {"x"}
    assert (await world.record()).holder == ""


async def test_without_an_election_everything_runs_at_once(site: Site, world: World) -> None:
    copier = Copier()
    replica = site.start("a", copier.controller(), leader_elect=False)
    await world.admin.of(core_v1.ConfigMap).create(config_map("x"), namespace="default")
    await world.clock.advance(1)
    assert await copied(world) == {"x"}
    assert replica.manager.live.names == ["ping", "copier"]
    replica.task.cancel()
    await world.until(replica.task.done)
    assert replica.task.cancelled()
    assert copier.running == 0


async def test_with_the_gate_off_a_lost_lease_ends_the_process(site: Site, world: World) -> None:
    replica = site.start("a", Copier().controller(), gates="GracefulLeaderTransition=false")
    await site.until_leads(replica)
    replica.network.cut()
    await world.until(replica.task.done)
    failure = replica.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(LeadershipLost) is not None


async def test_with_the_gate_off_the_lease_is_left_to_expire(site: Site, world: World) -> None:
    gates = "ControllerManagerReleaseLeaderElectionLockOnExit=false"
    replica = site.start("a", Copier().controller(), gates=gates)
    await site.until_leads(replica)
    replica.task.cancel()
    await world.until(replica.task.done)
    assert (await world.record()).holder == "a"


async def test_locks_are_spread_over_replicas(site: Site, world: World) -> None:
    def groups() -> dict[str, tuple[Controller, ...]]:
        return {f"g{number}": (Copier().controller(f"c{number}"),) for number in range(4)}

    first = site.start("a", groups=groups())
    await site.until_leads(first, 4)
    second = site.start("b", groups=groups())
    await world.clock.advance(120)
    assert len(first.leads) == len(second.leads) == 2
    # When one is gone, the other has them all at once.
    second.task.cancel()
    await world.until(second.task.done)
    await world.clock.advance(1)
    assert len(first.leads) == 4


async def test_a_controller_runs_while_its_resource_is_served(site: Site, world: World) -> None:
    copier = Copier()
    controller = Controller(name="copier", run=copier.run, present=ServedDefinition("widgets.example.com"))
    replica = site.start("a", controller)
    await site.until_leads(replica)
    definitions = world.admin.of(CustomResourceDefinition)
    manifest = custom_resource_definition("widgets", "example.com", kind="Widget")
    for _ in range(3):
        await world.clock.advance(5)
        assert copier.running == 0
        assert replica.manager.live.names == ["ping", "leaderElection"]
        await definitions.create(wire.from_dict(CustomResourceDefinition, manifest))
        await world.clock.advance(5)
        assert copier.running == 1
        assert replica.manager.live.names == ["ping", "leaderElection", "copier"]
        await definitions.delete("widgets.example.com")
    await world.clock.advance(5)
    assert (copier.running, copier.most) == (0, 1)
    assert replica.leads == [LOCK.name]


async def test_a_controller_stops_as_soon_as_its_resource_is_on_its_way_out(site: Site, world: World) -> None:
    copier = Copier()
    controller = Controller(name="copier", run=copier.run, present=ServedDefinition("widgets.example.com"))
    await site.until_leads(site.start("a", controller))
    manifest = custom_resource_definition("widgets", "example.com", kind="Widget")
    manifest["metadata"]["finalizers"] = ["example.com/held"]
    await world.admin.of(CustomResourceDefinition).create(wire.from_dict(CustomResourceDefinition, manifest))
    await world.clock.advance(5)
    assert copier.running == 1
    await world.admin.of(CustomResourceDefinition).delete("widgets.example.com")
    await world.clock.advance(5)
    assert (await world.admin.of(CustomResourceDefinition).get("widgets.example.com")).deleting
    assert copier.running == 0


async def test_a_controller_that_ends_by_itself_runs_again_only_for_what_comes_anew(site: Site, world: World) -> None:
    switch = Switch(is_on=True)
    runs = 0

    class Switched:
        @contextlib.asynccontextmanager
        async def watched(self, client: Client) -> AsyncIterator[Switch]:
            yield switch

    async def once(context: Context) -> None:
        nonlocal runs
        runs += 1

    replica = site.start("a", Controller(name="once", run=once, present=Switched()))
    await site.until_leads(replica)
    for turn in range(1, 4):
        await world.clock.advance(5)
        assert runs == turn
        switch.set(is_on=False)
        await world.clock.advance(1)
        switch.set(is_on=True)


async def test_a_controller_whose_gate_is_off_does_not_run(site: Site, world: World) -> None:
    gated, free = Copier(), Copier()
    behind = Controller(name="gated", run=gated.run, gate=gates.SPECIALIZED_LIFECYCLE_MANAGEMENT)
    replica = site.start("a", behind, free.controller(), gates="SpecializedLifecycleManagement=false")
    await site.until_leads(replica)
    await world.clock.advance(5)
    assert (gated.running, free.running) == (0, 1)


async def test_locks_are_spread_also_when_leases_are_not_released(site: Site, world: World) -> None:
    def groups() -> dict[str, tuple[Controller, ...]]:
        return {f"g{number}": (Copier().controller(f"copier-{number}"),) for number in range(2)}

    keep = "ControllerManagerReleaseLeaderElectionLockOnExit=false"
    first = site.start("a", groups=groups(), gates=keep)
    await site.until_leads(first, 2)
    second = site.start("b", groups=groups(), gates=keep)
    await world.clock.advance(90)
    for _ in range(60):
        await world.clock.advance(5)
        assert len(first.leads) == len(second.leads) == 1


async def test_the_seconds_of_a_leader_are_counted_while_it_leads(site: Site, world: World) -> None:
    leader = site.start("a", Copier().controller())
    await site.until_leads(leader)
    await world.clock.advance(60)
    assert leader.leads
    line = f'fairlead_leader_seconds_total{{name="{LOCK}"}} '
    (text,) = [found for found in leader.metrics.exposition().decode().splitlines() if found.startswith(line)]
    assert 57 <= float(text.removeprefix(line)) <= 61


async def test_healthz_verbose_tells_the_truth_in_an_outage(site: Site, world: World) -> None:
    leader = site.start("a", Copier().controller())
    await site.until_leads(leader)
    follower = site.start("b", Copier().controller())
    await world.clock.advance(5)

    def verbose() -> tuple[str, str]:
        first, second = (each.manager.live.report("healthz", verbose=True).text for each in (leader, follower))
        return first, second

    assert [("leads, term 0" in verbose()[0]), ("ok: follows a" in verbose()[1])] == [True, True]
    for replica in (leader, follower):
        replica.network.cut()
    await world.clock.advance(6)
    for text in verbose():
        assert "no answer from the API server for" in text
        assert "no route" in text
    await world.clock.advance(20)
    for text in verbose():
        assert "leads, term" not in text
        assert "last known: follows a" in text
    for replica in (leader, follower):
        replica.network.mend()
    await world.until(lambda: "no answer" not in "".join(verbose()))
