"""Four things that go wrong when a kubelet alone ends the pods of a machine that goes down, and do not with the agent.

1. Killed in the middle it loses its lock, and the later groups get no turn (kubernetes#122674).
2. Killed in the middle while somebody else holds the machine up, its successor says that the node is ready and starts
   again what was ended, and new pods are bound to a machine that goes down.
3. When that shutdown is called off, it holds no lock, and the next shutdown is not graceful.
4. The last status of a pod may not reach the API before the machine is off (kubernetes#112443).

Each is done to two machines at once, one of them with the agent. Once in `make e2e`, twenty times in `make e2e-long`.
"""

from __future__ import annotations

import asyncio
import collections
import json

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.shutdowns import AGENT, ENDED_WELL, GROUPS, KUBELET, NODES, Pair, late_pod, watching

ROUNDS_LONG = 20
ROUNDS = [1, pytest.param(ROUNDS_LONG, marks=pytest.mark.long)]
HOLD = ("systemd-inhibit", "--what=shutdown", "--mode=delay", "--who=other", "--why=test", "sleep", "infinity")

CROWD = 12
# The kubelet's defaults up to Kubernetes 1.26, of which the report speaks.
FEW_REQUESTS = {"kubeAPIQPS": 5, "kubeAPIBurst": 10}

Counts = collections.Counter[tuple[str, str]]


def tell(counts: Counts, rounds: int, *failures: str) -> None:
    print(f"{'of ' + str(rounds):42}  kubelet alone  with the agent")  # noqa: T201 - the counts are the result
    for failure in failures:
        print(f"{failure:42}  {counts[KUBELET, failure]:<13}  {counts[AGENT, failure]}")  # noqa: T201 - the counts are the result


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.timeout(3600)
async def test_later_groups_get_their_turn_after_a_kill(real: Cluster, rounds: int) -> None:
    """Whoever ends the pods is killed when the first is asked to end."""
    failure, counts = "later groups skipped", Counts()
    pair = Pair(real, {AGENT: "agent"})
    await pair.set_up()
    for number in range(rounds):
        turn = f"-{number}"
        await pair.start_pods(turn)
        await pair.power_off()
        for node, unit in ((AGENT, "fairlead-agent"), (KUBELET, "kubelet")):
            await pair.until_asked("low", node, turn)
            await pair.kill(node, unit)
        await pair.until_off()
        for node in NODES:
            counts[node, failure] += not pair.is_in_order(node, turn)
        counts[AGENT, "status lost"] += await pair.ends(AGENT, turn) != ENDED_WELL
        if number < rounds - 1:
            await pair.boot()
    tell(counts, rounds, failure)
    assert counts[KUBELET, failure] > 0, "the kubelet alone does not fail any more: is this test still of use?"
    assert counts[AGENT, failure] == counts[AGENT, "status lost"] == 0


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.timeout(3600)
async def test_a_node_that_goes_down_stays_down_and_one_that_does_not_is_held_up_again(
    real: Cluster, rounds: int
) -> None:
    """Both kubelets are killed while somebody else holds the machines up; then the shutdown is called off."""
    failures = (
        "ready again",
        "pods started again",
        "new pods bound",
        "no lock after it was called off",
        "next not graceful",
    )
    counts = Counts()
    pair = Pair(real, {AGENT: "auto"})
    await pair.set_up()
    for number in range(rounds):
        turn = f"-{number}"
        await forget(pair, turn, counts)
        await call_off(pair, counts)
        await pair.start_pods(f"{turn}b")
        await pair.power_off()
        await pair.until_off()
        for node in NODES:
            counts[node, "next not graceful"] += not pair.is_in_order(node, f"{turn}b")
        if number < rounds - 1:
            await pair.boot()
    tell(counts, rounds, *failures)
    for failure in failures:
        assert counts[KUBELET, failure] > 0, f"{failure}: the kubelet alone does not fail any more"
        assert counts[AGENT, failure] == 0


async def forget(pair: Pair, turn: str, counts: Counts) -> None:
    """Kill both kubelets in the middle, and see what their nodes do in the time that somebody else gives them."""
    await pair.start_pods(turn)
    for node in NODES:
        await asyncio.to_thread(pair.run, node, "systemd-run", "--unit=other", *HOLD)
        await pair.real.until(f"somebody holds {node} up", lambda node=node: pair.is_held(node, "other"))
    async with watching(pair.real) as sights:
        await pair.see("nodes are watched", lambda: all(sights.readiness.values()))
        await pair.power_off()
        for node in NODES:
            await pair.until_asked("low", node, turn)
            await pair.kill(node, "kubelet")
        await pair.real.apply(*(late_pod(node, turn) for node in NODES))
        # The kubelet alone shows all that there is to see; the agent has had as long then.
        await pair.see("the kubelet says it is ready", lambda: sights.was_ready_again(KUBELET))
        await pair.real.until("a new pod is bound", lambda: is_bound(pair, KUBELET, turn))
        await pair.see("low is started again", lambda: is_started_again(pair, KUBELET, turn))
        await pair.see("the agent has ended its pods", lambda: pair.is_in_order(AGENT, turn))
        for node in NODES:
            counts[node, "ready again"] += sights.was_ready_again(node)
            counts[node, "new pods bound"] += await is_bound(pair, node, turn)
            counts[node, "pods started again"] += any(is_started_again(pair, node, turn, group) for group in GROUPS)


async def call_off(pair: Pair, counts: Counts) -> None:
    """logind gives up a shutdown whose target cannot be reached."""
    for node in NODES:
        await asyncio.to_thread(pair.run, node, "systemctl", "mask", "--runtime", "poweroff.target")
        await asyncio.to_thread(pair.run, node, "systemctl", "stop", "other")
    for node in NODES:
        await pair.until_called_off(node)
    await pair.until_taken_back(AGENT)
    await pair.until_held(AGENT)
    for node in NODES:
        counts[node, "no lock after it was called off"] += not await pair.is_held(node, "kubelet")
        await asyncio.to_thread(pair.run, node, "systemctl", "unmask", "--runtime", "poweroff.target")


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_a_kubelet_that_closes_its_new_lock_is_restarted(real: Cluster) -> None:
    """The kubelets of both end their pods, and that is called off when they are half through."""
    failures, counts = ("no lock after it was called off", "restarted for it"), Counts()
    pair = Pair(real, {AGENT: "kubelet"})
    await pair.set_up()
    for number in range(ROUNDS_LONG):
        turn = f"-{number}"
        await pair.start_pods(turn)
        before = pair.run(AGENT, "systemctl", "show", "--property=MainPID", "kubelet")
        await pair.power_off()
        for node in NODES:
            await pair.until_asked("low", node, turn)
            await asyncio.to_thread(pair.run, node, "systemctl", "mask", "--runtime", "poweroff.target")
        for node in NODES:
            await pair.until_called_off(node)
        await pair.until_taken_back(AGENT)
        await pair.until_held(AGENT)
        counts[AGENT, failures[1]] += pair.run(AGENT, "systemctl", "show", "--property=MainPID", "kubelet") != before
        for node in NODES:
            counts[node, failures[0]] += not await pair.is_held(node, "kubelet")
            await asyncio.to_thread(pair.run, node, "systemctl", "unmask", "--runtime", "poweroff.target")
        await asyncio.to_thread(pair.run, KUBELET, "systemctl", "restart", "kubelet")
        await pair.until_ready()
    tell(counts, ROUNDS_LONG, *failures)
    assert counts[AGENT, failures[0]] == 0


def is_started_again(pair: Pair, node: str, turn: str, group: str = "low") -> bool:
    words = pair.said(group, node, turn)
    return "TERM" in words and words["up"] > words["TERM"]


async def is_bound(pair: Pair, node: str, turn: str) -> bool:
    shown = json.loads(await pair.real.kubectl("get", "pod", f"late-{node}{turn}", "-o", "json"))
    return "nodeName" in shown["spec"]


# What a kubelet owes is written in the seconds that it leaves; an overloaded machine has none (docs/shutdown.md).
@pytest.mark.parametrize("owner", ["agent", pytest.param("kubelet", marks=pytest.mark.long)])
@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.timeout(3600)
async def test_the_last_status_is_known_before_the_machine_is_off(real: Cluster, rounds: int, owner: str) -> None:
    """Nobody is killed. Beside a kubelet that ends the pods, the agent writes what the kubelet owes."""
    failure, counts = "last status lost", Counts()
    pair = Pair(real, {AGENT: owner}, FEW_REQUESTS)
    await pair.set_up()
    for number in range(rounds):
        turn = f"-{number}"
        await pair.start_pods(turn)
        await pair.start_crowds(turn, CROWD)
        await pair.power_off()
        await pair.until_off()
        for node in NODES:
            left = await pair.left_running(node)
            counts[node, failure] += left > 0
            counts[node, "pods in all"] += left
            assert pair.is_in_order(node, turn)
        assert await pair.ends(AGENT, turn) == ENDED_WELL
        if number < rounds - 1:
            await pair.boot()
    tell(counts, rounds, failure, "pods in all")
    assert counts[AGENT, failure] == 0  # the kubelet alone is lucky now and then
