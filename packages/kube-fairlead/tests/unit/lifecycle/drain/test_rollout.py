from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.lifecycle.drain.rollout import Limits, Readiness, is_unavailable, startable

ZONES = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b"}


@pytest.mark.parametrize(
    ("waiting", "active", "limits", "expected"),
    [
        ("a1 a2 b1", "", Limits(), "a1"),
        ("a1 a2 b1", "a3", Limits(), ""),
        ("a1 a2 b1", "a3", Limits(max_unavailable=3), "a1 a2"),
        ("a1 a2 b1", "", Limits(max_unavailable=3, per_zone=1), "a1 b1"),
        ("a1 a2 b1", "a3", Limits(max_unavailable=3, per_zone=1), "b1"),
        ("a1 a2 b1", "a3", Limits(max_unavailable=9, per_zone=2), "a1 b1"),
        ("a1 b1 b2", "a2 a3", Limits(max_unavailable=9, per_zone=2), "b1 b2"),
        ("a1", "a2 a3", Limits(max_unavailable=9, per_zone=3), "a1"),
        # Those without a zone are one zone of their own.
        ("x y a1", "", Limits(max_unavailable=3, per_zone=1), "x a1"),
        ("x a1", "y", Limits(max_unavailable=3, per_zone=1), "a1"),
    ],
)
def test_which_nodes_may_be_started(waiting: str, active: str, limits: Limits, expected: str) -> None:
    assert startable(waiting.split(), active.split(), ZONES, limits) == tuple(expected.split())


@pytest.mark.parametrize(
    ("waiting", "active", "unavailable", "limits", "expected"),
    [
        # A node that is out of service takes the place of one that could be begun.
        ("a1 a2", "", "b1", Limits(), ""),
        ("a1 a2", "", "b1", Limits(max_unavailable=2), "a1"),
        ("a1 b2", "", "a2", Limits(max_unavailable=9, per_zone=1), "b2"),
        # One of the nodes themselves is begun all the same: it takes nothing away.
        ("a1 a2", "", "a2", Limits(), "a2"),
        ("a1 a2", "", "a1 a2", Limits(), "a1"),
        ("a1 a2", "", "a1 a2", Limits(max_unavailable=2), "a1 a2"),
        ("a1 a2 b1", "", "a2", Limits(max_unavailable=2), "a1 a2"),
        # What is worked on counts once, however often it is named.
        ("a1 a2", "b1", "b1", Limits(max_unavailable=2), "a1"),
    ],
)
def test_nodes_that_are_out_of_service_count(
    waiting: str, active: str, unavailable: str, limits: Limits, expected: str
) -> None:
    begun = startable(waiting.split(), active.split(), ZONES, limits, unavailable=unavailable.split())
    assert begun == tuple(expected.split())


Startable = Callable[..., tuple[str, ...]]


def broken_rules(decide: Startable, seed: int) -> list[str]:
    """Play a rollout in which nodes fall out of service and come back by themselves; the rules that were broken."""
    chance = random.Random(seed)
    zones = {f"n{number}": chance.choice(["a", "b", ""]) for number in range(8)}
    limits = Limits(max_unavailable=chance.randint(1, 4), per_zone=chance.randint(0, 2))
    waiting, active, out, done = list(zones), set[str](), set[str](), set[str]()
    broken: list[str] = []
    for _ in range(400):
        for name in chance.sample(sorted(zones), 2):
            if name not in active:
                (out.discard if name in out else out.add)(name)
        before = out | active
        for name in decide(list(waiting), set(active), zones, limits, unavailable=set(out)):
            waiting.remove(name)
            active.add(name)
            after = out | active
            if len(active) > limits.max_unavailable or (name not in before and len(after) > limits.max_unavailable):
                broken.append(f"too many out of service: {sorted(after)}")
            near = {one for one in after if zones[one] == zones[name]}
            if limits.per_zone and name not in before and len(near) > limits.per_zone:
                broken.append(f"too many of one zone: {sorted(near)}")
        if active and chance.random() < 0.5:
            ended = chance.choice(sorted(active))
            active.discard(ended)
            out.discard(ended)
            done.add(ended)
        if not waiting and not active:
            return broken
        if not out and not active and waiting and not decide(waiting, set(), zones, limits, unavailable=()):
            broken.append("nothing is out of service, and yet nothing is begun")
    return [*broken, "it never ends"]


@pytest.mark.parametrize("seed", range(40))
def test_no_history_takes_out_more_than_allowed_and_all_end(seed: int) -> None:
    assert broken_rules(startable, seed) == []


def test_a_rollout_that_does_not_count_the_others_is_found() -> None:
    """The mutant: only the nodes worked on are counted, as it once was."""

    def blind(
        waiting: Sequence[str],
        active: Collection[str],
        zones: Mapping[str, str],
        limits: Limits,
        *,
        unavailable: Collection[str] = (),
    ) -> tuple[str, ...]:
        del unavailable
        return startable(waiting, active, zones, limits)

    assert any(broken_rules(blind, seed) for seed in range(40))


def node(ready: str | None = "True", *, boot: str = "1", cordoned: bool = False) -> Node:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    status = {"conditions": conditions, "nodeInfo": {"bootID": boot}}
    return wire.from_dict(Node, {"metadata": {"name": "n"}, "spec": {"unschedulable": cordoned}, "status": status})


def test_what_is_out_of_service() -> None:
    assert not is_unavailable(node())
    assert is_unavailable(node(cordoned=True))
    assert all(is_unavailable(node(ready)) for ready in ("False", "Unknown", None))


def test_a_node_is_fit_when_it_was_ready_for_long_enough_in_one_boot() -> None:
    start, hold = dt.datetime(2026, 7, 1, tzinfo=dt.UTC), dt.timedelta(seconds=30)

    def at(seconds: int) -> dt.datetime:
        return start + dt.timedelta(seconds=seconds)

    seen = Readiness().seen(node(), at(0))
    assert seen.fit_at(hold) == at(30)
    assert seen.seen(node(), at(20)).fit_at(hold) == at(30)
    assert seen.seen(node("Unknown"), at(20)).fit_at(hold) is None
    assert seen.seen(None, at(20)).fit_at(hold) is None
    assert seen.seen(node("False"), at(20)).seen(node(), at(25)).fit_at(hold) == at(55)
    # A reboot that was too quick for the node to be called not Ready.
    assert seen.seen(node(boot="2"), at(20)).fit_at(hold) == at(50)
