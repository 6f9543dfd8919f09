from __future__ import annotations

import datetime as dt
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.core_v1 import Node, Taint
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.decisions.lifecycle import FirstLook, Limits, first_look, judge
from kube_fairlead.cloud.ownership import Ownership, ownership
from kube_fairlead.cloud.provider import Instance
from tests.unit.cloud.world import UNINITIALIZED, node

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PLATFORMS = frozenset({"aws"})


def look_at(nodes: list[Node], platforms: frozenset[str] = PLATFORMS) -> FirstLook:
    return first_look(nodes, platforms, NOW, Limits())


def owned(count: int, **more: object) -> list[Node]:
    return [node(f"n{number}", f"aws://{number}", ready="False", **more) for number in range(count)]  # type: ignore[arg-type]  # as `node` takes them


@pytest.mark.parametrize(
    ("total", "missing", "share", "recently", "deleted"),
    [
        (1, 1, 0.1, 0, False),  # all of them
        (2, 1, 0.1, 0, True),  # one always may
        (2, 1, 0.0, 0, False),  # unless none may
        (2, 2, 1.0, 0, False),  # all of them, whatever the share
        (19, 2, 0.1, 0, False),
        (20, 2, 0.1, 0, True),
        (20, 2, 0.1, 1, False),  # together with those of a moment ago
        (20, 1, 0.1, 1, True),
        (100, 10, 0.1, 0, True),
        (100, 11, 0.1, 0, False),
        (100, 99, 1.0, 0, True),
        (100, 100, 1.0, 0, False),
    ],
)
def test_how_many_may_vanish(total: int, missing: int, share: float, recently: int, deleted: bool) -> None:
    nodes = owned(total)
    answers = {one.name: Instance(provider_id=one.spec.provider_id) for one in nodes[missing:]}
    verdict = judge(look_at(nodes), answers, Limits(vanishing_share=share), recently_vanished=recently)
    assert (verdict.stops == ()) is deleted
    assert len(verdict.confirm) == (missing if deleted else 0)


def test_a_stop_says_what_to_do() -> None:
    [stop] = judge(look_at(owned(3)), {}, Limits()).stops
    assert str(stop) == (
        "The cloud knows none of its 3 nodes of platform aws any more: none is deleted. To delete those that "
        "are really gone, annotate them with cloud.fairlead.dev/confirm-deletion=true"
    )
    nodes = owned(5)
    answers = {one.name: Instance(provider_id="x") for one in nodes[2:]}
    [stop] = judge(look_at(nodes), answers, Limits()).stops
    assert str(stop).startswith(
        "2 of 5 nodes vanished from the cloud within five minutes, more than 1: none is deleted."
    )


@pytest.mark.parametrize("missing", range(1, 5))
@pytest.mark.parametrize("recently", range(4))
def test_a_stop_counts_those_that_went_a_moment_ago(missing: int, recently: int) -> None:
    nodes = owned(10)
    answers = {one.name: Instance(provider_id="x") for one in nodes[missing:]}
    stops = judge(look_at(nodes), answers, Limits(), recently_vanished=recently).stops
    assert (stops == ()) is (missing + recently <= 1)
    for stop in stops:
        numbers = [int(number) for number in re.findall(r"[0-9]+", str(stop))]
        deleted = [recently] if recently else []
        assert numbers == [missing + recently, 10 + recently, *deleted, 1]


def test_confirmed_nodes_go_even_during_a_stop() -> None:
    yes = {wellknown.ANNOTATION_CONFIRM_DELETION: "true"}
    nodes = [*owned(3), node("sure", "aws://9", ready="False", annotations=yes)]
    verdict = judge(look_at(nodes), {}, Limits())
    assert [one.name for one in verdict.confirm] == ["sure"]
    assert len(verdict.stops) == 1


def test_when_all_are_missing_announced_ones_stay_too() -> None:
    leaving = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")
    nodes = [*owned(2), node("leaving", "aws://9", ready="False", taints=[leaving])]
    assert judge(look_at(nodes), {}, Limits()).confirm == ()
    answers = {"n0": Instance(provider_id="aws://0")}
    assert [one.name for one in judge(look_at(nodes), answers, Limits()).confirm] == ["leaving", "n1"]


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("how", ["taint", "deletion", "confirmation"])
def test_the_last_nodes_go_when_all_of_them_were_announced(number: int, how: str) -> None:
    """A node group that was scaled down to nothing. The cloud is still asked about each id."""
    how_made: dict[str, dict[str, object]] = {
        "taint": {"taints": [Taint(key=wellknown.TAINT_TO_BE_DELETED, effect="NoSchedule")]},
        "deletion": {"deletion_timestamp": NOW},
        "confirmation": {"annotations": {wellknown.ANNOTATION_CONFIRM_DELETION: "true"}},
    }
    nodes = owned(number, **how_made[how])
    verdict = judge(look_at(nodes), {}, Limits())
    assert verdict.confirm == tuple(nodes)
    assert verdict.stops == ()
    assert verdict.surprises == frozenset()


def test_each_platform_is_looked_at_by_itself() -> None:
    """Of two platforms one is empty, as far as the cloud says: it is the answer that is wrong."""
    platforms = frozenset({"aws", "lab"})
    labs = [node(f"lab-{number}", f"lab://{number}", ready="False") for number in range(2)]
    many = owned(100)
    look = look_at([*many, *labs], platforms)
    answers = {one.name: Instance(provider_id=one.spec.provider_id) for one in many[1:]}
    verdict = judge(look, answers, Limits())
    [stop] = verdict.stops
    assert (stop.platform, stop.of, stop.missing) == ("lab", 2, tuple(labs))
    assert [one.name for one in verdict.confirm] == ["n0"]  # one of a hundred
    answers = {one.name: Instance(provider_id=one.spec.provider_id) for one in many[10:]}
    first, second = judge(look, answers, Limits()).stops
    assert (first.platform, second.platform, second.allowed, len(second.missing)) == ("lab", "", 10, 10)


states = st.sampled_from(["True", "False", "Unknown", None])
ids = st.sampled_from(["", "aws://{}", "gce://{}", "aws:/{}", "AWS://{}", "aws-x://{}"])
platform_notes = st.sampled_from([None, "", "aws", "gce"])
taint_sets = st.lists(
    st.sampled_from(
        [UNINITIALIZED, wellknown.SHUTDOWN_TAINT, Taint(key=wellknown.TAINT_TO_BE_DELETED, effect="NoSchedule")]
    ),
    unique=True,
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    made = []
    for number in range(draw(st.integers(0, 30))):
        confirmed = draw(st.booleans())
        made.append(
            node(
                f"n{number}",
                draw(ids).format(number),
                platform=draw(platform_notes),
                ready=draw(states),
                taints=draw(taint_sets),
                annotations={wellknown.ANNOTATION_CONFIRM_DELETION: "true"} if confirmed else {},
                creation_timestamp=NOW - dt.timedelta(seconds=draw(st.integers(0, 300))),
            )
        )
    return made


@given(nodes=clusters(), share=st.floats(0, 1), recently=st.integers(0, 5), data=st.data())
def test_invariants_of_any_pass(nodes: list[Node], share: float, recently: int, data: st.DataObject) -> None:
    look = look_at(nodes)
    found = data.draw(st.sets(st.sampled_from([one.name for one in look.ask]))) if look.ask else set()
    answers = {name: Instance(provider_id="aws://x", shutdown=data.draw(st.booleans())) for name in sorted(found)}
    verdict = judge(look, answers, Limits(vanishing_share=share), recently_vanished=recently)
    touched = [*look.untaint, *look.ask, *verdict.taint, *verdict.confirm]
    assert all(ownership(one, PLATFORMS) is Ownership.OWNED for one in touched)
    for one in verdict.confirm:
        assert one.spec.provider_id
        assert not wellknown.is_ready(one)
        assert one.name not in answers
    surprises = [one for one in verdict.confirm if one.name in verdict.surprises]
    assert len(surprises) + (recently if surprises else 0) <= max(1, math.floor(share * (look.with_id + recently)))
    if surprises:
        assert len(verdict.confirm) < look.with_id
    for stop in verdict.stops:
        assert not {one.name for one in stop.missing} & {one.name for one in verdict.confirm}
