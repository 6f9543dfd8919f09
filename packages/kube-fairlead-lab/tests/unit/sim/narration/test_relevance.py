from __future__ import annotations

import dataclasses

from kube_fairlead_lab.sim.action_plan import Action
from kube_fairlead_lab.sim.environment import Violation
from kube_fairlead_lab.sim.narration.entries import Entry, names_in
from kube_fairlead_lab.sim.narration.relevance import relevant_entries

CRASH = Action(1.0, "agent_crash", 1, number=4)
REQUESTED = Action(1.0, "event_wanted", 1, number=5)


def did(at: float, who: str, what: str, action: Action | None = None) -> Entry:
    return Entry(at, who, what, names_in(f"{who} {what}"), action)


def stored(at: float, who: str, what: str, about: str) -> Entry:
    return dataclasses.replace(did(at, who, what), about=about, revision=int(at * 10) + 1)


HISTORY = (
    did(0.0, "apiserver", "starts, run 1"),
    *(stored(0.0, "user", f"creates node node-{number}", f"node-{number}") for number in (1, 2)),
    *(did(0.0, f"{kind}-node-{number}", "starts, run 1") for kind in ("agent", "kubelet") for number in (1, 2)),
    did(1.0, "agent-node-1", "will be killed after 3 steps, or soon", CRASH),
    did(2.0, "user", "requests event e-0: reboot of node-1", REQUESTED),
    stored(2.1, "user", "creates event e-0 (reboot of node-1)", "e-0"),
    did(3.0, "user", "requests event e-1: reboot of node-1", REQUESTED),
    stored(3.1, "user", "creates event e-1 (reboot of node-1)", "e-1"),
    stored(3.2, "user", "creates event e-2 (reboot of node-2)", "e-2"),
    stored(3.3, "agent-node-1", "event e-1 (reboot of node-1): claimStatus Pending -> Claimed", "e-1"),
    did(3.4, "agent-node-1", "fails to update nodes/node-1: 409"),
    did(3.5, "agent-node-1", "fails to update nodes/node-1: 409"),
    did(3.6, "agent-node-2", "does something"),
    stored(3.7, "agent-node-1", "creates lease a/node-1, held by agent-node-1", "node-1"),
    did(4.0, "checker", "3: event e-1 lost its finalizer"),
)


def extract(what: str, rule: str = "3", history: tuple[Entry, ...] = HISTORY) -> list[str]:
    return [line.strip() for line in relevant_entries(history, Violation(rule, what)).lines]


def test_entries_of_named_objects_and_faults_that_hit_them_are_kept() -> None:
    lines = extract("event e-1 lost its finalizer")
    assert [line.split()[0] for line in lines] == [
        "0.000000",  # the server concerns every actor
        "1.000000",  # a fault a while before
        "3.000000",
        "3.100000",
        "3.300000",
        "3.400000",  # twice
        "3.700000",
        "4.000000",
    ]
    assert lines[1].endswith("[4 agent_crash]")
    assert lines[5].endswith("(2 times, the last at 3.500000)")


def test_a_node_includes_its_processes() -> None:
    lines = extract("node node-2 is wrong")
    assert any("does something" in line for line in lines)
    assert not any("node-1" in line for line in lines)


def test_without_a_name_every_entry_is_kept() -> None:
    found = relevant_entries(HISTORY, Violation("liveness", "nothing can run and no timer is set"))
    assert (len(found.lines), found.omitted) == (len(HISTORY) - 1, 0)


def test_a_change_can_be_named_by_its_revision() -> None:
    late = tuple(did(5.0 + number, "agent-node-2", f"does {number} things") for number in range(200))
    history = (*HISTORY[:-1], dataclasses.replace(HISTORY[-6], names=HISTORY[-6].names | {"34"}, revision=34), *late)
    assert any("@34" in line for line in extract("the watch never delivered 34 of node-2", "linearizability", history))
    assert not any("@34" in line for line in extract("34 s for node-2", "10", history))


def test_the_number_of_lines_is_limited() -> None:
    history = tuple(did(float(number), "agent-node-1", f"does {number}") for number in range(500))
    found = relevant_entries(history, Violation("10", "agent-node-1 is bad"))
    assert len(found.lines) == 80
    assert found.omitted == 420
    assert found.lines[-1].endswith("does 499")


def test_minor_entries_are_omitted() -> None:
    minor = dataclasses.replace(did(3.0, "agent-node-1", "renews lease a/node-1"), is_minor=True)
    assert not any("renews" in line for line in extract("node-1 is wrong", history=(*HISTORY, minor)))
