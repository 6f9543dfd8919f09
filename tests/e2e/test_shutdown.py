"""Two machines go down at once, one by its kubelet alone, one with the agent; and what was to be done is killed."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import pathlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from fairlead.testing.rawhttp import RawApi
from tests.e2e.cluster import Cluster

pytestmark = pytest.mark.timeout(600)

Json = dict[str, Any]

AGENT, KUBELET = "na", "nb"
GROUPS = ("low", "middle", "critical")
PERIODS = {
    "shutdownGracePeriodByPodPriority": [
        {"priority": 0, "shutdownGracePeriodSeconds": 40},
        {"priority": 1000, "shutdownGracePeriodSeconds": 40},
        {"priority": 2000000000, "shutdownGracePeriodSeconds": 20},
    ]
}
PAIRS = [(group, node) for group in GROUPS for node in (AGENT, KUBELET)]
CLASSES = {"low": "", "middle": "middle", "critical": "system-cluster-critical"}
OBEYS = "trap 'echo TERM; sleep 3; echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
STAYS = "trap 'echo TERM' TERM; echo up; while :; do sleep 0.1; done"
OVERRIDE = """[Service]
ExecStart=
ExecStart={command} --config=/share/agent.json --shutdown-owner={owner}
NotifyAccess=main
FileDescriptorStoreMax=1
"""


def pod(group: str, node: str) -> Json:
    """One that does not listen has three seconds; the others end by themselves."""
    container: Json = {"name": "c", "image": "registry.local/busybox:1", "imagePullPolicy": "Never"}
    container["command"] = ["/bin/sh", "-c", STAYS if group == "critical" else OBEYS]
    spec: Json = {"nodeName": node, "containers": [container], "automountServiceAccountToken": False}
    spec |= {"priorityClassName": CLASSES[group], "terminationGracePeriodSeconds": 3 if group == "critical" else 60}
    metadata = {"name": f"{group}-{node}", "namespace": "default", "labels": {"app": group}}
    if group == "critical":
        metadata["namespace"] = "kube-system"  # the only place for such a class without a quota
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "low", "namespace": "default"},
    "spec": {"selector": {"app": "low"}, "ports": [{"port": 80}]},
}
PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "middle"},
    "value": 1000,
}


class Sights:
    """What a watcher saw: the nodes' readiness, and when the endpoints of a pod stopped being ready."""

    def __init__(self) -> None:
        self.readiness: dict[str, list[str]] = {AGENT: [], KUBELET: []}
        self.unlisted: dict[str, dt.datetime] = {}

    async def nodes(self, api: RawApi) -> None:
        async with api.watch("/api/v1/nodes") as watch:
            while True:
                node = (await watch.next())["object"]
                for one in node["status"].get("conditions", ()):
                    seen = self.readiness[node["metadata"]["name"]]
                    if one["type"] == "Ready" and seen[-1:] != [one["status"]]:
                        seen.append(one["status"])

    async def slices(self, api: RawApi) -> None:
        async with api.watch("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices") as watch:
            while True:
                found = (await watch.next())["object"].get("endpoints") or ()
                ready = {one["targetRef"]["name"] for one in found if "targetRef" in one and one["conditions"]["ready"]}
                for name in (f"low-{AGENT}", f"low-{KUBELET}"):
                    if name in ready:
                        self.unlisted.pop(name, None)
                    else:
                        self.unlisted.setdefault(name, dt.datetime.now(dt.UTC))


@contextlib.asynccontextmanager
async def watching(real: Cluster) -> AsyncIterator[Sights]:
    sights = Sights()
    async with (
        RawApi(real.plane.access(), timeout_seconds=600) as one,
        RawApi(real.plane.access(), timeout_seconds=600) as two,
    ):
        watches = [asyncio.create_task(sights.nodes(one)), asyncio.create_task(sights.slices(two))]
        yield sights
        for watch in watches:
            watch.cancel()
        await asyncio.wait(watches)


def said(real: Cluster, group: str, node: str) -> dict[str, dt.datetime]:
    """What a container said, and when, by the runtime's own log."""
    logs = real.nodes[node].folder / "data" / "logs"
    lines: list[str] = []
    for path in sorted(logs.glob(f"*_{group}-{node}_*/c/*.log")):
        lines += path.read_text().splitlines()
    words = [line.split(" ", 3) for line in lines]
    return {word[3]: dt.datetime.fromisoformat(word[0][:26] + "+00:00") for word in words if len(word) == 4}


async def outcome(real: Cluster, group: str, node: str) -> tuple[str, str, int | None, str, int]:
    """Phase, reason, exit code, reason of DisruptionTarget, restarts."""
    namespace = pod(group, node)["metadata"]["namespace"]
    shown = json.loads(await real.kubectl("get", "pod", f"{group}-{node}", "-n", namespace, "-o", "json"))["status"]
    (container,) = shown["containerStatuses"]
    code = container["state"].get("terminated", {}).get("exitCode")
    targets = [one["reason"] for one in shown["conditions"] if one["type"] == "DisruptionTarget"]
    return shown["phase"], shown.get("reason", ""), code, "".join(targets), container["restartCount"]


def inside(real: Cluster, node: str, path: str, text: str) -> None:
    """Write a file of the node's own."""
    scratch = real.nodes[node].share / "scratch"
    scratch.write_text(text)
    real.nodes[node].run("bash", "-c", f"mkdir -p $(dirname {path}) && cp /share/scratch {path}")


async def set_up(real: Cluster, *, owner: str) -> None:
    """The same periods for both, and the same pods. The kubelet of the agent's node has them where it is the owner."""
    share = {name: pathlib.Path(node.share) for name, node in real.nodes.items()}
    for node in (KUBELET, AGENT) if owner == "auto" else (KUBELET,):
        kubelet = json.loads((share[node] / "kubelet.json").read_text())
        (share[node] / "kubelet.json").write_text(json.dumps(kubelet | PERIODS))
        await asyncio.to_thread(real.nodes[node].run, "systemctl", "restart", "kubelet")
        await real.until(f"the kubelet of {node} holds its lock", lambda node=node: locked(real, node, "kubelet"))
    (share[AGENT] / "agent.json").write_text(json.dumps(PERIODS))
    unit = (share[AGENT] / "units" / "fairlead-agent.service").read_text()
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=")
    override = OVERRIDE.format(command=command, owner=owner)
    inside(real, AGENT, "/run/systemd/system/fairlead-agent.service.d/shutdown.conf", override)
    for words in (["daemon-reload"], ["restart", "fairlead-agent"]):
        await asyncio.to_thread(real.nodes[AGENT].run, "systemctl", *words)
    await real.apply(PRIORITY, SERVICE)
    await real.apply(*(pod(group, node) for group, node in PAIRS))
    await real.until("all pods are up", lambda: shown(lambda: all("up" in said(real, *pair) for pair in PAIRS)))
    await real.until("the agent holds its lock", lambda: locked(real, AGENT, "fairlead-agent"))
    cache = real.nodes[AGENT].folder / "data" / "fairlead" / "shutdown" / "pods.json"
    known = lambda: cache.exists() and "critical-na" in cache.read_text()  # noqa: E731 - asked again and again
    await real.until("the agent knows the pods", lambda: shown(known))


async def shown(holds: Callable[[], bool]) -> bool:
    return await asyncio.to_thread(holds)


async def locked(real: Cluster, node: str, who: str) -> bool:
    listed = await asyncio.to_thread(real.nodes[node].run, "systemd-inhibit", "--list", "--no-legend")
    return who in listed.stdout


async def go_down(real: Cluster, *, killed: dict[str, str]) -> Sights:
    """Power both nodes off, and kill a unit of a node when its first pod is asked to end."""
    async with watching(real) as sights:
        ready = lambda: sights.readiness[AGENT] != [] and not sights.unlisted  # noqa: E731 - asked again and again
        await real.until("endpoints are ready", lambda: shown(ready))
        for node in (AGENT, KUBELET):
            await asyncio.to_thread(real.nodes[node].run, "systemctl", "poweroff")
        for node, unit in killed.items():
            await real.until(
                f"low of {node} is asked to end", lambda node=node: shown(lambda: "TERM" in said(real, "low", node))
            )
            await asyncio.to_thread(
                real.nodes[node].run, "systemctl", "kill", "--signal=SIGKILL", "--kill-who=main", unit
            )
        for node in (AGENT, KUBELET):
            await real.until(f"{node} is down", lambda node=node: shown(lambda: not real.nodes[node].is_up))
    return sights


async def print_table(real: Cluster) -> None:
    print("group     node  phase      reason      exit  target                restarts  seconds from TERM to the end")  # noqa: T201 - the comparison itself
    for group, node in PAIRS:
        phase, reason, code, target, restarts = await outcome(real, group, node)
        words = said(real, group, node)
        took = f"{(words['bye'] - words['TERM']).total_seconds():.1f}" if {"bye", "TERM"} <= set(words) else "-"
        print(f"{group:9} {node:5} {phase:10} {reason:11} {code!s:5} {target:21} {restarts:<9} {took}")  # noqa: T201 - the comparison itself


def is_in_order(real: Cluster, node: str) -> bool:
    """Whether every group was asked when the one before had ended."""
    low, middle, critical = (said(real, group, node) for group in GROUPS)
    if not ({"TERM", "bye"} <= set(low) and {"TERM", "bye"} <= set(middle) and "TERM" in critical):
        return False
    return low["bye"] <= middle["TERM"] and middle["bye"] <= critical["TERM"]


async def assert_ended_well(real: Cluster, sights: Sights) -> None:
    ends = [await outcome(real, group, AGENT) for group in GROUPS]
    assert [end[:3] for end in ends] == [("Succeeded", "", 0), ("Succeeded", "", 0), ("Failed", "Terminated", 137)]
    assert [end[4] for end in ends] == [0, 0, 0], "nothing was started again"
    assert is_in_order(real, AGENT)
    assert sights.readiness[AGENT] in (["True", "False"], ["True", "False", "Unknown"]), "never ready again"


async def test_beside_the_kubelet_the_agent_does_the_same_and_does_not_forget(real: Cluster) -> None:
    """Owner agent, killed in the middle (kubernetes#122674); the kubelet, left in peace, is the reference."""
    await set_up(real, owner="agent")
    sights = await go_down(real, killed={AGENT: "fairlead-agent"})
    await print_table(real)
    await assert_ended_well(real, sights)
    assert is_in_order(real, KUBELET)
    for group in GROUPS:
        theirs = await outcome(real, group, KUBELET)
        if theirs[0] != "Running":  # the kubelet's last status is sometimes lost; ours never is
            assert await outcome(real, group, AGENT) == theirs
    assert sights.unlisted[f"low-{AGENT}"] <= said(real, "low", AGENT)["TERM"], "traffic had left before the signal"


async def test_a_kubelet_that_is_killed_forgets_and_the_agent_takes_over(real: Cluster) -> None:
    """Owner auto: both kubelets are killed in the middle; only one of them has an agent beside it."""
    await set_up(real, owner="auto")
    sights = await go_down(real, killed={AGENT: "kubelet", KUBELET: "kubelet"})
    await print_table(real)
    await assert_ended_well(real, sights)
    assert not is_in_order(real, KUBELET), "a kubelet alone does not come to its later groups"
