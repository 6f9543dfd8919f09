"""Two machines that go down: what runs on them, what is done to them, and what was seen of it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import json
import pathlib
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.e2e import cluster
from tests.e2e.cluster import Cluster

Json = dict[str, Any]

AGENT, KUBELET = "na", "nb"
NODES = (AGENT, KUBELET)
GROUPS = ("low", "middle", "critical")
PERIODS = {
    "shutdownGracePeriodByPodPriority": [
        {"priority": 0, "shutdownGracePeriodSeconds": 40},
        {"priority": 1000, "shutdownGracePeriodSeconds": 40},
        {"priority": 2000000000, "shutdownGracePeriodSeconds": 20},
    ]
}
CLASSES = {"low": "", "middle": "middle", "critical": "system-cluster-critical"}
OBEYS = "trap 'echo TERM; sleep 2; echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
# It hears the signal and stays; what it says last tells when it was killed.
STAYS = "trap 'echo TERM; heard=1' TERM; echo up; while :; do sleep 0.1; [ -z \"$heard\" ] || echo alive; done"
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
DAEMONS: Json = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "daemon", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "daemon"}},
        "template": {
            "metadata": {"labels": {"app": "daemon"}},
            "spec": {
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": "c",
                        "image": "registry.local/busybox:1",
                        "imagePullPolicy": "Never",
                        "command": ["/bin/sh", "-c", OBEYS],
                    }
                ],
            },
        },
    },
}
ENDED_WELL = [("Succeeded", "", 0, 0), ("Succeeded", "", 0, 0), ("Failed", "Terminated", 137, 0)]
LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")


def pod(group: str, node: str, turn: str = "") -> Json:
    """One that does not listen has three seconds; the others end by themselves."""
    container: Json = {"name": "c", "image": "registry.local/busybox:1", "imagePullPolicy": "Never"}
    container["command"] = ["/bin/sh", "-c", STAYS if group == "critical" else OBEYS]
    spec: Json = {"nodeName": node, "containers": [container], "automountServiceAccountToken": False}
    spec |= {"priorityClassName": CLASSES[group], "terminationGracePeriodSeconds": 3 if group == "critical" else 60}
    metadata = {"name": f"{group}-{node}{turn}", "namespace": "default", "labels": {"app": group}}
    if group == "critical":
        metadata["namespace"] = "kube-system"  # the only place for such a class without a quota
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def late_pod(node: str, turn: str) -> Json:
    """One that only this node can take; the scheduler decides when."""
    made = pod("low", node)
    made["metadata"] |= {"name": f"late-{node}{turn}", "labels": {"app": "late"}}
    del made["spec"]["nodeName"]
    made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return made


def crowd(node: str, turn: str, size: int) -> list[Json]:
    """Critical pods that end at once, all of them: as many last statuses at the last moment."""
    pods = [pod("critical", node) for _ in range(size)]
    for number, one in enumerate(pods):
        one["metadata"] |= {"name": f"crowd-{number}-{node}{turn}", "labels": {"app": "crowd"}}
        one["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 600 & wait"]
    return pods


class Sights:
    """What a watcher saw: the nodes' readiness, when the endpoints of a pod stopped being ready, pods of DaemonSets."""

    def __init__(self) -> None:
        self.daemons: dict[str, set[str]] = {node: set() for node in NODES}  # their uids
        self.readiness: dict[str, list[str]] = {node: [] for node in NODES}
        self._ready: dict[str, set[str]] = {}  # by slice

    async def nodes(self, api: RawApi) -> None:
        async with api.watch("/api/v1/nodes") as watch:
            while True:
                node = (await watch.next())["object"]
                for one in node["status"].get("conditions", ()):
                    seen = self.readiness[node["metadata"]["name"]]
                    if one["type"] == "Ready" and seen[-1:] != [one["status"]]:
                        seen.append(one["status"])

    async def pods(self, api: RawApi) -> None:
        async with api.watch("/api/v1/namespaces/default/pods", labelSelector="app=daemon") as watch:
            while True:
                found = (await watch.next())["object"]
                affinity = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                (node,) = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"]
                self.daemons[node].add(found["metadata"]["uid"])

    async def slices(self, api: RawApi) -> None:
        async with api.watch("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices") as watch:
            while True:
                found = (await watch.next())["object"]
                self._ready[found["metadata"]["name"]] = ready_pods(found)

    def is_listed(self, name: str) -> bool:
        return any(name in ready for ready in self._ready.values())

    def was_ready_again(self, node: str) -> bool:
        """Whether it said so after it had said that it goes down."""
        return "True" in self.readiness[node][self.readiness[node].index("False") :]


def unlisted(audit_log: pathlib.Path) -> dict[str, dt.datetime]:
    """When the write that made each endpoint not ready, for good, came to the API server, by that server's log.

    All machines here share one clock, and the log has the moment of the write itself: how late a test or an agent sees
    it plays no part.
    """
    writes = [json.loads(line) for line in audit_log.read_text(encoding="utf-8").splitlines()]
    stored = [(one["responseObject"], one["requestReceivedTimestamp"]) for one in writes if is_stored(one)]
    stored.sort(key=lambda one: int(one[0]["metadata"]["resourceVersion"]))
    left: dict[str, dt.datetime] = {}
    slices: dict[str, set[str]] = {}
    for written, received in stored:
        before = set().union(*slices.values())
        slices[written["metadata"]["name"]] = ready_pods(written)
        ready = set().union(*slices.values())
        left |= dict.fromkeys(before - ready, dt.datetime.fromisoformat(received))
        left = {name: moment for name, moment in left.items() if name not in ready}
    return left


def is_stored(write: Json) -> bool:
    """Whether an entry of the audit log is about a slice that was stored."""
    return bool(write["responseStatus"]["code"] < 300 and write["responseObject"].get("kind") == "EndpointSlice")


def ready_pods(found: Json) -> set[str]:
    """The pods of a slice that get traffic."""
    endpoints = found.get("endpoints") or ()
    return {one["targetRef"]["name"] for one in endpoints if "targetRef" in one and one["conditions"]["ready"]}


@contextlib.asynccontextmanager
async def watching(real: Cluster) -> AsyncIterator[Sights]:
    sights = Sights()
    async with (
        RawApi(real.plane.access(), timeout_seconds=600) as one,
        RawApi(real.plane.access(), timeout_seconds=600) as two,
        RawApi(real.plane.access(), timeout_seconds=600) as three,
    ):
        work = (sights.nodes(one), sights.slices(two), sights.pods(three))
        watches = [asyncio.create_task(watch) for watch in work]
        yield sights
        for watch in watches:
            watch.cancel()
        await asyncio.wait(watches)


class Pair:
    """The two nodes. `owners`: who ends the pods of a node, as its agent is told; none: its kubelet, alone.

    `kubelet`: what the configuration of both kubelets says beside.
    """

    def __init__(self, real: Cluster, owners: dict[str, str], kubelet: Json | None = None) -> None:
        self.real = real
        self.owners = owners
        self.kubelet = kubelet or {}
        self._logged: dict[str, int] = {}  # how long the agent's log was when the node was powered off

    async def set_up(self) -> None:
        """The same periods for all who end pods."""
        await self.prepare_pods()
        for node in NODES:
            await asyncio.to_thread(self._configure, node)
        await self.until_ready()

    async def prepare_pods(self) -> None:
        """What the pods of all groups need beside themselves."""
        await self.real.apply(PRIORITY, SERVICE)

    def _configure(self, node: str) -> None:
        owner, machine = self.owners.get(node, ""), self.real.nodes[node]
        kubelet = json.loads((machine.share / "kubelet.json").read_text())
        kubelet = {key: value for key, value in kubelet.items() if key not in PERIODS} | self.kubelet
        (machine.share / "kubelet.json").write_text(json.dumps(kubelet if owner == "agent" else kubelet | PERIODS))
        (machine.share / "agent.json").write_text(json.dumps(PERIODS))
        unit = (machine.share / "units" / "fairlead-agent.service").read_text()
        # From the boot on, and without what an earlier pair had said.
        lines = [
            line for line in unit.splitlines() if not line.startswith(("NotifyAccess=", "FileDescriptorStoreMax="))
        ]
        lines = [re.sub(r" --config=.*", "", line) if line.startswith("ExecStart=") else line for line in lines]
        if owner:
            flags = f" --config=/share/agent.json --shutdown-owner={owner}"
            lines = [line + flags if line.startswith("ExecStart=") else line for line in lines]
            lines += ["NotifyAccess=main", "FileDescriptorStoreMax=1"]
        machine.unit("fairlead-agent.service", "\n".join(lines) + "\n")
        machine.run("bash", "-c", "cp /share/units/* /run/systemd/system/ && systemctl daemon-reload")
        machine.run("systemctl", "restart", "kubelet", "fairlead-agent")

    async def boot(self) -> None:
        """Both again, after they went down; nothing is left of the pods that were there."""
        for namespace in ("default", "kube-system"):
            await self.real.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "-n", namespace)
        down = [node for node in self.real.nodes.values() if not node.is_up]
        await asyncio.gather(*(asyncio.to_thread(cluster.start, node) for node in down))
        await self.until_ready()

    async def until_ready(self) -> None:
        await self.real.until("both nodes are ready", lambda: cluster.are_ready(self.real))
        for node in NODES:
            await self.until_held(node)

    async def until_held(self, node: str) -> None:
        """Whoever ends the pods of a node holds it up, and for long enough."""
        owner = self.owners.get(node, "")
        holders = {"agent": ["fairlead-agent"], "": ["kubelet"]}.get(owner, ["kubelet", "fairlead-agent"])
        for who in holders:
            await self.real.until(f"{who} holds {node} up", lambda who=who: self.is_held(node, who))
        needed = 1_000_000 * sum(
            one["shutdownGracePeriodSeconds"] for one in PERIODS["shutdownGracePeriodByPodPriority"]
        )
        words = ["busctl", "get-property", *LOGIND, "InhibitDelayMaxUSec"]
        await self.see(f"logind of {node} waits", lambda: int(self.run(node, *words).split()[1]) >= needed)

    async def start_pods(self, turn: str = "", nodes: tuple[str, ...] = NODES) -> None:
        """One of each group on each node, known to whoever is to end them."""
        pairs = [(group, node) for group in GROUPS for node in nodes]
        await self.real.apply(*(pod(group, node, turn) for group, node in pairs))
        await self.see("all pods are up", lambda: all("up" in self.said(*pair, turn) for pair in pairs))
        for node in nodes:
            await self.see(f"the agent of {node} knows the pods", functools.partial(self.is_known, node, turn))

    async def start_crowds(self, turn: str, size: int) -> None:
        """Beside the three groups of each node."""
        made = [one for node in NODES for one in crowd(node, turn, size)]
        await self.real.apply(*made)
        await self.real.until("the crowds run", lambda: self._crowds_run(len(made)))
        for node in self.owners:
            cache = self.real.nodes[node].folder / "data" / "fairlead" / "shutdown" / "pods.json"
            names = [one["metadata"]["name"] for one in crowd(node, turn, size)]
            everybody = functools.partial(_are_in, names, cache)
            await self.see(f"the agent of {node} knows its crowd", everybody)

    async def _crowds_run(self, size: int) -> bool:
        words = ["get", "pods", "-n", "kube-system", "--selector=app=crowd", "-o", "json"]
        found = json.loads(await self.real.kubectl(*words))["items"]
        return [one["status"]["phase"] for one in found] == ["Running"] * size

    async def left_running(self, node: str) -> int:
        """How many pods of a machine that is off still run, for all that the API knows."""
        words = ["get", "pods", "-A", f"--field-selector=spec.nodeName={node}", "-o", "json"]
        found = json.loads(await self.real.kubectl(*words))["items"]
        return sum(one["status"]["phase"] == "Running" for one in found)

    def is_known(self, node: str, turn: str) -> bool:
        """Whether the agent, if one is to end the pods, has written them down."""
        cache = self.real.nodes[node].folder / "data" / "fairlead" / "shutdown" / "pods.json"
        names = [pod(group, node, turn)["metadata"]["name"] for group in GROUPS]
        return not self.owners.get(node) or (cache.exists() and all(name in cache.read_text() for name in names))

    async def power_off(self, nodes: tuple[str, ...] = NODES) -> None:
        for node in nodes:
            log = self.real.nodes[node].share / "fairlead-agent.log"
            self._logged[node] = log.stat().st_size if log.exists() else 0
            await asyncio.to_thread(self.run, node, "systemctl", "poweroff")

    async def until_asked(self, group: str, node: str, turn: str = "") -> None:
        await self.see(f"{group} of {node} is asked to end", lambda: "TERM" in self.said(group, node, turn))

    async def kill(self, node: str, unit: str) -> None:
        await asyncio.to_thread(self.run, node, "systemctl", "kill", "--signal=SIGKILL", "--kill-who=main", unit)

    async def until_off(self) -> None:
        await self.see("both are down", lambda: not any(node.is_up for node in self.real.nodes.values()))

    async def until_called_off(self, node: str) -> None:
        words = ["busctl", "get-property", *LOGIND, "PreparingForShutdown"]
        await self.see(f"the shutdown of {node} is called off", lambda: "false" in self.run(node, *words))

    async def until_taken_back(self, node: str) -> None:
        state = self.real.nodes[node].folder / "data" / "fairlead" / "shutdown" / "shutdown-state.json"
        await self.see(f"the shutdown of {node} is taken back", lambda: not state.exists())

    async def is_held(self, node: str, who: str) -> bool:
        """Whether somebody of that name holds the machine up."""
        listed = await asyncio.to_thread(self.run, node, "systemd-inhibit", "--list", "--no-legend")
        return any(line.split()[:1] == [who] for line in listed.splitlines())

    def run(self, node: str, *command: str, check: bool = True) -> str:
        return self.real.nodes[node].run(*command, check=check).stdout

    async def see(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait for what the machines do by themselves."""
        await self.real.until(what, lambda: asyncio.to_thread(holds))

    def said(self, group: str, node: str, turn: str = "") -> dict[str, dt.datetime]:
        """What a container said, and when it did so last, by the runtime's own log."""
        logs = self.real.nodes[node].folder / "data" / "logs"
        lines: list[str] = []
        for path in sorted(logs.glob(f"*_{group}-{node}{turn}_*/c/*.log")):
            lines += path.read_text().splitlines()
        words = [line.split(" ", 3) for line in lines]
        return {word[3]: dt.datetime.fromisoformat(word[0][:26] + "+00:00") for word in words if len(word) == 4}

    def is_in_order(self, node: str, turn: str = "") -> bool:
        """Whether every group was asked when the one before had ended."""
        low, middle, critical = (self.said(group, node, turn) for group in GROUPS)
        if not ({"TERM", "bye"} <= set(low) and {"TERM", "bye"} <= set(middle) and "TERM" in critical):
            return False
        return low["bye"] <= middle["TERM"] and middle["bye"] <= critical["TERM"]

    async def outcome(self, group: str, node: str, turn: str = "") -> tuple[str, str, int | None, str, int]:
        """Phase, reason, exit code, reason of DisruptionTarget, restarts."""
        metadata = pod(group, node, turn)["metadata"]
        words = ["get", "pod", metadata["name"], "-n", metadata["namespace"], "-o", "json"]
        status = json.loads(await self.real.kubectl(*words))["status"]
        (container,) = status["containerStatuses"]
        code = container["state"].get("terminated", {}).get("exitCode")
        targets = [one["reason"] for one in status["conditions"] if one["type"] == "DisruptionTarget"]
        return status["phase"], status.get("reason", ""), code, "".join(targets), container["restartCount"]

    async def ends(self, node: str, turn: str = "") -> list[tuple[str, str, int | None, int]]:
        """Phase, reason, exit code and restarts of each group's pod, for all that the API knows."""
        found = [await self.outcome(group, node, turn) for group in GROUPS]
        return [(phase, reason, code, restarts) for phase, reason, code, _, restarts in found]

    def graces(self, node: str, turn: str = "") -> dict[str, float]:
        """What each pod was given, in the words of whoever ended it."""
        log = self.real.nodes[node].share / ("kubelet.log" if not self.owners.get(node) else "fairlead-agent.log")
        text, found = log.read_text(errors="replace"), {}
        for group in GROUPS:
            metadata = pod(group, node, turn)["metadata"]
            name = f"{metadata['namespace']}/{metadata['name']}"
            told = re.findall(rf'Killing container with a grace period" pod="{name}".* gracePeriod=(\d+)', text)
            told += re.findall(rf"terminating pod pod={name} grace_seconds=([\d.]+)", text)
            found[group] = float(told[0])
        return found

    def gave_up_waiting(self, node: str) -> bool:
        """Whether the agent asked pods to end before it saw that traffic had left them."""
        log = self.real.nodes[node].share / "fairlead-agent.log"
        return b"pods not announced to the API server" in log.read_bytes()[self._logged[node] :]


def _are_in(names: list[str], cache: pathlib.Path) -> bool:
    return cache.exists() and all(name in cache.read_text() for name in names)
