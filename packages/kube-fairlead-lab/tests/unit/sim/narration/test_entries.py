from __future__ import annotations

from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_lab.sim.action_plan import Action
from kube_fairlead_lab.sim.commits import NODES, Commit
from kube_fairlead_lab.sim.loop import SimLoop
from kube_fairlead_lab.sim.narration.entries import names_in, narrate
from kube_fairlead_lab.sim.narration.write_log import Rejection, Write
from kube_fairlead_lab.sim.trace import PLAN, Trace

ACTION = Action(1.0, "partition", 1, number=17)
INFO = RequestInfo(path="", verb="patch", is_resource=True, resource=NODES, name="n", subresource="status")


def trace() -> Trace:
    loop = SimLoop(SeededRandomness(1))
    loop.close()
    return Trace(loop)


def test_an_action_is_shown_with_the_actor_that_it_hit() -> None:
    made = trace()
    with made.during(ACTION):
        made.add(PLAN, "partition")
        made.add("agent-1", "is cut off")
    made.add("agent-1", "waits")
    assert [str(entry).split(None, 1)[1] for entry in narrate(made.facts)] == [
        "agent-1           is cut off  [17 partition]",
        "agent-1           waits",
    ]


def test_an_action_that_hit_no_actor_is_shown() -> None:
    made = trace()
    with made.during(ACTION):
        made.add(PLAN, "partition")
    assert [str(entry).split() for entry in narrate(made.facts)] == [["0.000000", "plan", "partition", "[17]"]]


def test_changes_belong_to_their_authors_and_rejections_are_shown() -> None:
    made = trace()
    granted, rejected = Write("agent-1", INFO), Write("agent-2", INFO)
    made.keep(granted)
    made.keep(rejected)
    rejected.response, rejected.ended = Response(409, b'{"message":"too late"}'), len(made.facts)
    made.keep(Rejection(rejected))
    made.keep(Commit(9, NODES, "n", None, {"metadata": {"name": "n"}}, 0.0))
    assert [(entry.who, entry.what) for entry in narrate(made.facts)] == [
        ("agent-2", "fails to patch nodes/n/status: 409 too late"),
        ("agent-1", "creates node n"),
    ]


def test_kept_facts_do_not_change_the_hash() -> None:
    one, other = trace(), trace()
    other.keep(Write("agent-1", INFO))
    assert one.digest == other.digest
    other.seal(b"stored")
    assert one.digest != other.digest


def test_names() -> None:
    assert names_in("xcloud2://node-1 manager-0_2 agent-n#3, default/web-1.") == {
        "xcloud2",
        "node-1",
        "manager-0",
        "agent-n",
        "default",
        "web-1",
    }
