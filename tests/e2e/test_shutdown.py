"""Two machines go down at once, one by its kubelet alone, one with the agent; and what was to be done is killed."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.shutdowns import AGENT, DAEMONS, ENDED_WELL, GROUPS, KUBELET, NODES, Pair, Sights, unlisted, watching

pytestmark = pytest.mark.timeout(600)

Json = dict[str, Any]

# The agent looks at the endpoints ten times a second: so long after a write it has seen it, on a busy machine too.
AGENT_SEES_WITHIN = dt.timedelta(seconds=1.5)


async def go_down(pair: Pair, *, killed: dict[str, str]) -> Sights:
    """Power both nodes off, and kill a unit of a node when its first pod is asked to end."""
    async with watching(pair.real) as sights:
        await pair.see(
            "endpoints are ready",
            lambda: all(sights.readiness[node] and sights.is_listed(f"low-{node}") for node in NODES),
        )
        await pair.power_off()
        for node, unit in killed.items():
            await pair.until_asked("low", node)
            await pair.kill(node, unit)
        await pair.until_off()
    return sights


async def daemons_run(real: Cluster) -> bool:
    found = await real.pods(app="daemon")
    return [one["status"]["phase"] for one in found] == ["Running"] * len(NODES)


async def print_table(pair: Pair) -> None:
    """What became of the same pods under the same configuration: beside each other, group by group."""
    graces = {node: pair.graces(node) for node in NODES}
    asked = {node: pair.said("low", node)["TERM"] for node in NODES}
    print("group     ended by  asked at  grace  took  phase      reason      exit  target                restarts")  # noqa: T201 - the comparison itself
    for group in GROUPS:
        for node in NODES:
            phase, reason, code, target, restarts = await pair.outcome(group, node)
            words = pair.said(group, node)
            after, took = words["TERM"] - asked[node], max(words.values()) - words["TERM"]
            print(  # noqa: T201 - the comparison itself
                f"{group:9} {'agent' if node == AGENT else 'kubelet':9} {after.total_seconds():<8.1f}  "
                f"{graces[node][group]:<5.0f}  {took.total_seconds():<4.1f}  {phase:10} {reason:11} {code!s:5} "
                f"{target:21} {restarts}"
            )


async def test_beside_the_kubelet_the_agent_does_the_same_and_does_not_forget(real: Cluster) -> None:
    """Owner agent, killed in the middle (kubernetes#122674); the kubelet, left in peace, is the reference."""
    pair = Pair(real, {AGENT: "agent"})
    await pair.set_up()
    await real.apply(DAEMONS)
    await pair.start_pods()
    await real.until("the daemons run", lambda: daemons_run(real))
    sights = await go_down(pair, killed={AGENT: "fairlead-agent"})
    await print_table(pair)
    print(f"pods made for the DaemonSet: {', '.join(f'{len(sights.daemons[node])} on {node}' for node in NODES)}")  # noqa: T201 - the comparison itself
    assert await pair.ends(AGENT) == ENDED_WELL
    assert not sights.was_ready_again(AGENT)
    assert pair.is_in_order(AGENT)
    assert pair.is_in_order(KUBELET)
    for group in GROUPS:
        theirs = await pair.outcome(group, KUBELET)
        if theirs[0] != "Running":  # the kubelet's last status is sometimes lost; ours never is
            assert await pair.outcome(group, AGENT) == theirs
    ours, theirs_given = pair.graces(AGENT), pair.graces(KUBELET)
    assert theirs_given == {"low": 40, "middle": 40, "critical": 3}
    # What traffic gets to leave in comes out of the first group's time; the later ones begin early enough.
    assert 0 < ours["low"] <= 40
    assert {group: round(ours[group]) for group in ("middle", "critical")} == {"middle": 40, "critical": 3}
    assert len(sights.daemons[AGENT]) == 1, "its controller made no other for a node that goes down"
    # Traffic had left before the signal, unless the endpoint slice controller took as long as the agent waits for it.
    left, asked = unlisted(real.audit_log)[f"low-{AGENT}"], pair.said("low", AGENT)["TERM"]
    assert left <= asked or pair.gave_up_waiting(AGENT)
    if left + AGENT_SEES_WITHIN < asked:
        assert not pair.gave_up_waiting(AGENT), "the agent did not see that traffic had left"


async def test_a_kubelet_that_is_killed_forgets_and_the_agent_takes_over(real: Cluster) -> None:
    """Owner auto: both kubelets are killed in the middle; only one of them has an agent beside it."""
    pair = Pair(real, {AGENT: "auto"})
    await pair.set_up()
    await pair.start_pods()
    sights = await go_down(pair, killed={AGENT: "kubelet", KUBELET: "kubelet"})
    assert await pair.ends(AGENT) == ENDED_WELL
    assert pair.is_in_order(AGENT)
    assert not sights.was_ready_again(AGENT)
    assert not pair.is_in_order(KUBELET), "a kubelet alone does not come to its later groups"


async def test_a_shutdown_that_is_called_off_gives_the_node_back(real: Cluster) -> None:
    """An agent on both: on one it ends the pods itself, on the other the kubelet does."""
    pair = Pair(real, {AGENT: "agent", KUBELET: "kubelet"})
    await pair.set_up()
    await pair.start_pods()
    await pair.power_off()
    for node in NODES:
        await pair.until_asked("low", node)
        await asyncio.to_thread(pair.run, node, "systemctl", "mask", "--runtime", "poweroff.target")
    assert (await asyncio.to_thread(pair.run, AGENT, "systemctl", "is-active", "kubelet", check=False)) == "inactive\n"
    for node in NODES:
        await pair.until_called_off(node)
        await pair.until_taken_back(node)
        assert pair.is_in_order(node)
        assert (await asyncio.to_thread(pair.run, node, "systemctl", "is-active", "kubelet")) == "active\n"
        await asyncio.to_thread(pair.run, node, "systemctl", "unmask", "--runtime", "poweroff.target")
    await pair.until_ready()  # no cordon, no taint, and everybody holds the machine up again
    shown: Json = json.loads(await real.kubectl("get", "nodes", "-o", "json"))
    for one in shown["items"]:
        assert "unschedulable" not in one["spec"]
        said = {condition["type"]: condition["reason"] for condition in one["status"]["conditions"]}
        assert said["GracefulNodeShutdownInProgress"] == "ShutdownCancelled"
        assert "LifecycleTransition" not in said
    # Pods are taken again, and the next shutdown is as graceful as any.
    await pair.start_pods("-again")
    await pair.power_off()
    await pair.until_off()
    for node in NODES:
        assert pair.is_in_order(node, "-again")
        assert await pair.ends(node, "-again") == ENDED_WELL
