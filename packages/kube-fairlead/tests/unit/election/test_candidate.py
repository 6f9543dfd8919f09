"""Candidates against the embedded API server, on a clock that the tests move."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import ANNOTATION_PREFERRED_HOLDER_READY
from kube_fairlead.base import tasks
from kube_fairlead.election import Candidate, LeaderElectionRecord, Lock
from tests.unit.election.world import LOCK, World


def a_candidate(world: World, name: str, told: list[str] | None = None) -> Candidate:
    on_new_leader = None if told is None else told.append
    return Candidate(world.client(name), LOCK, identity=name, on_new_leader=on_new_leader)


@contextlib.asynccontextmanager
async def campaigning(candidate: Candidate) -> AsyncIterator[asyncio.Task[LeaderElectionRecord]]:
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope, candidate.following():
        yield scope.start(candidate.win(), name="win")


@contextlib.asynccontextmanager
async def holding(world: World, candidate: Candidate) -> AsyncIterator[asyncio.Task[str]]:
    """The candidate leads and renews."""
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope, candidate.following():
        await until_done(world, scope.start(candidate.win(), name="win"))
        yield scope.start(candidate.keep(lambda _: None), name="keep")


async def until_done(world: World, task: asyncio.Task[LeaderElectionRecord]) -> LeaderElectionRecord:
    await world.until(task.done)
    return task.result()


async def write(world: World, record: LeaderElectionRecord) -> None:
    """Somebody else, kubectl for example, writes the Lease."""
    await world.admin.of(Lease).modify(LOCK.name, record.onto, namespace=LOCK.namespace)


async def test_the_first_candidate_creates_the_lease(world: World) -> None:
    candidate = a_candidate(world, "a")
    async with campaigning(candidate) as winning:
        await world.clock.advance(0.05)
        assert winning.result().transitions == 0
        record = await world.record()
        assert (record.holder, record.lease_duration_seconds, record.transitions) == ("a", 15, 0)
        assert record.acquire_time == record.renew_time


async def test_unknown_fields_and_labels_survive(world: World) -> None:
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LOCK.name, "namespace": LOCK.namespace, "labels": {"team": "x"}},
        "spec": {"holderIdentity": "", "strategy": "example.com/any", "preferredHolder": "a"},
    }
    await world.admin.of(Lease).create(wire.from_dict(Lease, body))
    candidate = a_candidate(world, "a")
    async with campaigning(candidate) as winning:
        await world.clock.advance(0.05)
        assert winning.result().transitions == 1
    stored = wire.to_dict(await world.lease())
    assert stored["metadata"]["labels"] == {"team": "x"}
    assert stored["spec"]["strategy"] == "example.com/any"
    assert "preferredHolder" not in stored["spec"]


async def test_a_leader_renews_and_keeps_the_time_of_its_election(world: World) -> None:
    async with holding(world, a_candidate(world, "a")) as keeping:
        first = await world.record()
        await world.clock.advance(60)
        later = await world.record()
        assert not keeping.done()
        assert later.acquire_time == first.acquire_time
        assert later.transitions == first.transitions
        assert later.renew_time is not None
        assert (world.clock.now() - later.renew_time).total_seconds() <= 2


async def test_followers_act_on_a_release_at_once(world: World) -> None:
    leader, follower = a_candidate(world, "a"), a_candidate(world, "b")
    async with holding(world, leader) as keeping, campaigning(follower) as winning:
        await world.clock.advance(33)
        await tasks.cancel_and_wait(keeping)
        released_at = world.clock.monotonic()
        assert await leader.release(hold_off=True)
        won = await until_done(world, winning)
        assert world.clock.monotonic() - released_at <= 0.05
        assert won.transitions == 1
        assert (await world.record()).holder == "b"


async def test_followers_act_on_an_expiry_at_once(world: World) -> None:
    leader, follower = a_candidate(world, "a"), a_candidate(world, "b")
    async with holding(world, leader) as keeping, campaigning(follower) as winning:
        await world.clock.advance(33)
        await tasks.cancel_and_wait(keeping)
        last = (await world.record()).renew_time
        await until_done(world, winning)
        assert last is not None
        assert 15 <= (world.clock.now() - last).total_seconds() <= 15.1


async def test_a_renewal_nobody_told_the_follower_of_defeats_its_claim(world: World) -> None:
    """Its watch is silent, so it believes the lease expired; the version in its claim knows better."""
    leader, follower = a_candidate(world, "a"), a_candidate(world, "b")
    network = world.networks[-1]
    async with holding(world, leader), campaigning(follower) as winning:
        await world.clock.advance(3)
        network.is_mute = True
        network.sent.clear()
        await world.clock.advance(300)
        assert not winning.done()
        assert (await world.record()).holder == "a"
        assert any(request.method == "PUT" for request in network.sent)


async def test_an_outage_ends_the_term_at_the_renew_deadline(world: World) -> None:
    leader = a_candidate(world, "a")
    network = world.networks[-1]
    async with holding(world, leader) as keeping:
        await world.clock.advance(33)
        sent = leader.candidacy.renewed
        network.cut()
        assert sent is not None
        await world.clock.advance(sent + 9.9 - world.clock.monotonic())
        assert not keeping.done()
        await world.clock.advance(0.2)
        assert not leader.is_valid
        assert keeping.result() == "the lease was not renewed within 10 s"


async def test_a_short_outage_is_survived(world: World) -> None:
    leader = a_candidate(world, "a")
    network = world.networks[-1]
    async with holding(world, leader) as keeping:
        await world.clock.advance(33)
        network.cut()
        await world.clock.advance(7)
        network.mend()
        await world.clock.advance(30)
        assert not keeping.done()
        assert (await world.record()).transitions == 0


async def test_lost_answers_do_not_count_as_renewals(world: World) -> None:
    leader = a_candidate(world, "a")
    network = world.networks[-1]
    async with holding(world, leader) as keeping:
        await world.clock.advance(33)
        network.loses_answer = lambda _: True
        await world.clock.advance(12)
        assert keeping.result().startswith("the lease was not renewed")


async def test_a_slow_server_ages_the_lease_by_its_slowness(world: World) -> None:
    leader = a_candidate(world, "a")
    network = world.networks[-1]
    async with holding(world, leader) as keeping:
        await world.clock.advance(33)
        network.there = network.back = lambda: 2.0
        before = world.clock.monotonic()
        await world.clock.advance(60)
        assert not keeping.done()
        assert leader.candidacy.renewed is not None
        assert leader.candidacy.renewed > before
        assert world.clock.monotonic() - leader.candidacy.renewed >= 4


async def test_the_lease_of_a_successor_is_never_cleared(world: World) -> None:
    """The ex-leader was cut off; by the time it can release, another holds the lease."""
    leader = a_candidate(world, "a")
    async with holding(world, leader) as keeping:
        await tasks.cancel_and_wait(keeping)
        theirs = (await world.record()).taken_by("b", leader.timing, world.clock.now())
        await write(world, theirs)
        assert not await leader.release(hold_off=False)
        assert await world.record() == theirs
        assert not leader.candidacy.leads


async def test_a_release_gets_through_after_somebody_touched_the_lease(world: World) -> None:
    leader = a_candidate(world, "a")
    async with holding(world, leader) as keeping:
        await tasks.cancel_and_wait(keeping)
        await world.admin.of(Lease).modify(
            LOCK.name,
            lambda found: wire.replace_metadata(found, labels={"a": "b"}),
            namespace=LOCK.namespace,
        )
        assert await leader.release(hold_off=False)
        lease = await world.lease()
        assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("", 1)
        assert lease.metadata.labels == {"a": "b"}


async def test_a_release_into_an_outage_gives_up_after_three_seconds(world: World) -> None:
    leader = a_candidate(world, "a")
    network = world.networks[-1]
    async with tasks.TaskScope("test") as scope, holding(world, leader) as keeping:
        await tasks.cancel_and_wait(keeping)
        network.cut()
        releasing = scope.start(leader.release(hold_off=False), name="release")
        await world.clock.advance(2.9)
        assert not releasing.done()
        await world.clock.advance(0.2)
        assert releasing.result() is False
        assert not leader.candidacy.leads


async def test_a_deleted_lease_is_made_again_by_its_leader_not_by_others(world: World) -> None:
    leader, follower = a_candidate(world, "a"), a_candidate(world, "b")
    async with holding(world, leader) as keeping, campaigning(follower) as winning:
        await world.clock.advance(7)
        await world.admin.of(Lease).delete(LOCK.name, namespace=LOCK.namespace)
        await world.clock.settle()
        assert (await world.record()).holder == "a"
        await world.clock.advance(60)
        assert not keeping.done()
        assert not winning.done()


async def test_it_hands_on_a_request_to_yield_and_goes_on_renewing(world: World) -> None:
    leader = a_candidate(world, "a")
    asked: list[str] = []
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope, leader.following():
        await until_done(world, scope.start(leader.win(), name="win"))
        keeping = scope.start(leader.keep(asked.append), name="keep")
        await world.clock.advance(5)
        await world.admin.of(Lease).modify(
            LOCK.name,
            lambda found: wire.replace_metadata(
                wire.replace(found, spec=wire.replace(found.spec, preferred_holder="b", strategy="example.com/any")),
                annotations={ANNOTATION_PREFERRED_HOLDER_READY: "b"},
            ),
            namespace=LOCK.namespace,
        )
        await world.clock.advance(30)
        assert asked == ["b"]
        assert not keeping.done()
        assert (await world.record()).preferred_holder == "b"


async def test_everyone_is_told_of_every_holder(world: World) -> None:
    told: list[str] = []
    leader, follower = a_candidate(world, "a"), a_candidate(world, "b", told)
    async with holding(world, leader) as keeping, campaigning(follower) as winning:
        await world.clock.advance(5)
        await tasks.cancel_and_wait(keeping)
        await leader.release(hold_off=True)
        await until_done(world, winning)
        assert told == ["a", "", "b"]


async def test_an_unanswered_claim_that_was_stored_is_taken_up(world: World) -> None:
    candidate = a_candidate(world, "a")
    network = world.networks[-1]
    async with campaigning(candidate) as winning:
        network.loses_answer = lambda request: request.method == "POST"
        await world.clock.advance(0.5)
        assert winning.result().transitions == 0
        assert [request.method for request in network.sent if request.method != "GET"] == ["POST", "PUT"]


async def test_a_claim_without_an_answer_does_not_delay_the_end_of_a_candidate(world: World) -> None:
    """The API server falls silent with the claim under way: the lease is left to expire after three seconds."""
    candidate = a_candidate(world, "a")
    network = world.networks[-1]
    async with campaigning(candidate) as winning:
        network.back = lambda: 3600.0 if any(request.method == "POST" for request in network.sent) else 0.0
        while not network.back():
            await world.clock.advance(0.01)
        winning.cancel()
        await world.clock.advance(3.1)
        assert winning.done()
        network.back = lambda: 0.0


async def test_whoever_stops_campaigning_gives_back_what_it_may_have_won(world: World) -> None:
    candidate = a_candidate(world, "a")
    network = world.networks[-1]
    async with campaigning(candidate) as winning:
        network.back = lambda: 1.0
        while not any(request.method == "POST" for request in network.sent):
            await world.clock.advance(0.01)
        await world.clock.advance(0.5)
        assert (await world.record()).holder == "a"
        network.back = lambda: 0.0
        await tasks.cancel_and_wait(winning)
    assert (await world.record()).holder == ""


async def test_many_followers_and_one_winner(world: World) -> None:
    await world.admin.of(Lease).create(Lease(metadata=ObjectMeta(name=LOCK.name, namespace=LOCK.namespace)))
    candidates = [a_candidate(world, f"c{number}") for number in range(10)]
    async with contextlib.AsyncExitStack() as stack:
        running = [await stack.enter_async_context(campaigning(candidate)) for candidate in candidates]
        await world.clock.advance(1)
        assert sum(task.done() for task in running) == 1
        refused = sum(request.method == "PUT" for network in world.networks for request in network.sent) - 1
        assert refused <= 5


async def test_where_watching_is_forbidden_it_asks_as_client_go_does(world: World) -> None:
    leader = a_candidate(world, "a")
    async with holding(world, leader) as keeping:
        follower = a_candidate(world, "b")
        world.networks[-1].forbids_lists = True
        async with campaigning(follower) as winning:
            await world.clock.advance(60)
            assert not winning.done()
            await tasks.cancel_and_wait(keeping)
            await leader.release(hold_off=True)
            released_at = world.clock.monotonic()
            await until_done(world, winning)
            assert world.clock.monotonic() - released_at <= 4.5


async def test_a_lease_that_cannot_be_made_is_not_asked_for_all_the_time(world: World) -> None:
    client = world.client("a")
    candidate = Candidate(client, Lock("nowhere", "n1"), identity="a")
    async with campaigning(candidate) as winning:
        await world.clock.advance(60)
        assert not winning.done()
        # A read and a write, at most every second on the average of a growing pause.
        assert len(world.network_of(client).sent) < 150


async def test_two_candidates_with_one_identity_never_lead_at_once_and_are_named(world: World) -> None:
    noticed: list[str] = []
    leader = a_candidate(world, "a")
    twin = Candidate(world.client("twin"), LOCK, identity="a", on_rival=lambda: noticed.append("twin"))
    async with holding(world, leader) as keeping, campaigning(twin) as winning:
        await world.clock.advance(60)
        assert not keeping.done()
        assert not winning.done()
        assert noticed == ["twin"]
        await tasks.cancel_and_wait(keeping)
        assert await leader.release(hold_off=True)
        await until_done(world, winning)


async def test_a_candidate_does_not_release_what_another_process_took_under_its_name(world: World) -> None:
    leader = a_candidate(world, "a")
    async with holding(world, leader) as keeping:
        await world.clock.advance(1)
        now = world.clock.now()
        await world.admin.of(Lease).modify(
            LOCK.name,
            lambda found: wire.replace(found, spec=wire.replace(found.spec, renew_time=now, acquire_time=now)),
            namespace=LOCK.namespace,
        )
        await world.until(keeping.done)
        assert keeping.result() == "another process uses the identity a"
        assert not await leader.release(hold_off=False)
        assert (await world.record()).holder == "a"
