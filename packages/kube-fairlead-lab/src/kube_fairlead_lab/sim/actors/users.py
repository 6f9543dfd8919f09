"""Users: they create and delete events and custom resources, and change what controllers own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.reserved import (
    ANNOTATION_DRAIN_PREFIX,
    ANNOTATION_PLATFORM,
    ANNOTATION_PUBLISHED_BY,
    FINALIZER_CLAIMED,
    LIFECYCLE_GROUP,
    NODE_DRAIN,
    NODE_UNCORDON,
)
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.client import errors, patches
from kube_fairlead.client.client import Client
from kube_fairlead.cloud.provider import Route
from kube_fairlead.lifecycle.drain.rollout import ZONE_LABEL
from kube_fairlead_lab.sim.actors.clouds import ADMINISTRATORS, SimCloud
from kube_fairlead_lab.sim.actors.drivers import CENTRAL, DRIVER, REMOTE, SELF_TEST
from kube_fairlead_lab.sim.actors.machines import SimMachine
from kube_fairlead_lab.sim.actors.maintainers import Maintainer, MaintenanceObserver
from kube_fairlead_lab.sim.commits import EVENTS, NODES, THINGS, TRANSITIONS, Commits
from kube_fairlead_lab.sim.environment import Environment

__all__ = ["Users"]

_THINGS: Final = GroupVersionResource("sim.fairlead.dev", "v1", "things")
_DEFINITIONS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_NODES: Final = GroupVersionResource("", "v1", "nodes")
_EVENTS: Final = GroupVersionResource(LIFECYCLE_GROUP, "v1alpha1", "lifecycleevents")
_TRANSITIONS: Final = GroupVersionResource(LIFECYCLE_GROUP, "v1alpha1", "lifecycletransitions")
_LIFECYCLE: Final = f"{LIFECYCLE_GROUP}/v1alpha1"
_NO_FINALIZERS: Final = patches.MergePatch({"metadata": {"finalizers": None}})
_OPEN: Final = patches.MergePatch({"spec": {"unschedulable": None}})
_HOLD: Final = "sim.fairlead.dev/hold"
_MISSPELT: Final = 0.03  # how often an event names a node that does not exist
_IN_PAIRS: Final = 0.1  # how often a second event follows at once
_HELD: Final = 0.05  # how often an event is created from a copy, with its finalizer
_WANTED: Final = (
    "reboot",
    "reboot",
    "reboot",
    "patch",
    "patch",
    "nobodys",
    "remote",
    "firmware",
    "firmware",
    "retune",
    "calibrate",
    *(NODE_DRAIN.name,) * 3,
    NODE_UNCORDON.name,
)


class Users:
    """Sends requests through a client, and accepts every rejection."""

    def __init__(
        self,
        environment: Environment,
        commits: Commits,
        client: Client,
        clouds: dict[str, SimCloud],
        nodes: dict[str, str],
        machines: dict[str, SimMachine],
        maintenance: MaintenanceObserver,
    ) -> None:
        self._maintenance = maintenance
        self._environment = environment
        self._commits = commits
        self._client = client
        self._clouds = clouds
        self._nodes = nodes  # name -> platform
        self._machines = machines
        self._number = 0

    async def set_up(self) -> None:
        """Create nodes, transitions and a custom resource definition."""
        for name, platform in self._nodes.items():
            await self._make_node(name, platform)
        transitions = self._client.of(_TRANSITIONS)
        for name, start, end, sla, driver in (
            ("reboot", "Rebooting", "Rebooted", "90s", DRIVER),
            (SELF_TEST.name, SELF_TEST.start, SELF_TEST.end, SELF_TEST.sla, DRIVER),
            ("nobodys", "A", "B", "1m", "example.com/not-there"),
            (REMOTE[0].name, REMOTE[0].start, REMOTE[0].end, "90s", CENTRAL),
        ):
            spec = {"start": start, "end": end, "driver": driver, "allNodes": True, "sla": sla}
            await transitions.create(
                {
                    "apiVersion": _LIFECYCLE,
                    "kind": "LifecycleTransition",
                    "metadata": {"name": name},
                    "spec": spec,
                }
            )
        await self._client.of(_DEFINITIONS).create(_definition())

    async def ask_for_event(self, chance: Randomness) -> None:
        """Create an event for a node."""
        node = chance.choice(sorted(self._nodes)) if chance.random() >= _MISSPELT else "node-o"
        transition = chance.choice(_WANTED) if node in self._machines else REMOTE[0].name
        self._number += 1
        metadata: dict[str, Any] = {"name": f"e-{self._number}"}
        if transition == NODE_DRAIN.name and chance.random() < 0.4:
            flag = chance.choice(["force", "delete-emptydir-data"])
            metadata["annotations"] = {f"{ANNOTATION_DRAIN_PREFIX}{flag}": "false"}
        spec = {"transitionName": transition, "bindingNode": node}
        if chance.random() < _HELD:
            metadata["finalizers"] = [FINALIZER_CLAIMED]
        names = [metadata["name"]]
        if chance.random() < _IN_PAIRS:
            # Their names sort in the opposite order.
            names = [f"{metadata['name']}-b", f"{metadata['name']}-a"]
        for name in names:
            self._environment.trace.add("user", f"requests event {name}: {transition} of {node}")
            made = {"kind": "LifecycleEvent", "metadata": {**metadata, "name": name}, "spec": spec}
            async with self._rejections_ignored():
                await self._client.of(_EVENTS).create({"apiVersion": _LIFECYCLE, **made})

    async def delete_an_event(self, chance: Randomness) -> None:
        """Delete an event."""
        if (name := self._any(EVENTS, chance)) is not None:
            self._environment.trace.add("user", f"requests deletion of event {name}")
            async with self._rejections_ignored():
                await self._client.of(_EVENTS).delete(name)

    async def rewrite_a_deadline(self, chance: Randomness) -> None:
        """Try to extend the deadline of a claim. The server rejects it."""
        claimed = [name for name, event in self._commits.of(EVENTS).items() if event.get("status", {}).get("sla")]
        if claimed:
            name = chance.choice(sorted(claimed))
            self._environment.trace.add("user", f"requests a later deadline for event {name}")
            async with self._rejections_ignored():
                patch = patches.MergePatch({"status": {"sla": "2027-01-01T00:00:00Z"}})
                await self._client.of(_EVENTS).patch(name, patch, subresource="status")

    async def remove_a_finalizer(self, chance: Randomness) -> None:
        """Remove the finalizers of an event by force."""
        if (name := self._any(EVENTS, chance)) is not None:
            self._environment.strangers[name] += 1
            self._environment.trace.add("user", f"removes the finalizers of {name}")
            async with self._rejections_ignored():
                await self._client.of(_EVENTS).patch(name, _NO_FINALIZERS)

    async def maintain_nodes(self, chance: Randomness) -> None:
        """Maintain three nodes; their kubelets are silent for a moment after it."""
        names = sorted(self._machines)
        first = chance.choice(names)
        chosen = [*names[names.index(first) :], *names][:3]
        await Maintainer(self._environment, self._client, self._maintenance, self.set_node_not_ready).run(chosen)

    def busy_without_a_deadline(self) -> list[str]:
        """Return the nodes with a running transition without a deadline."""
        claimed = [one for one in self._commits.of(EVENTS).values() if one.get("status", {}).get("claimTime")]
        found = {one["spec"]["bindingNode"] for one in claimed if "sla" not in one["status"]}
        return sorted(found & self._machines.keys())

    async def delete_a_transition(self, chance: Randomness) -> None:
        """Delete a transition that an agent has published."""
        published = [
            name
            for name, one in self._commits.of(TRANSITIONS).items()
            if ANNOTATION_PUBLISHED_BY in one["metadata"].get("annotations", {})
        ]
        if published:
            name = chance.choice(sorted(published))
            self._environment.trace.add("user", f"deletes transition {name}")
            async with self._rejections_ignored():
                await self._client.of(_TRANSITIONS).delete(name)

    async def touch_things(self, chance: Randomness) -> None:
        """Create custom resources, delete them and remove their finalizers."""
        things = self._client.of(_THINGS)
        what = chance.random()
        key = self._any(THINGS, chance)
        name = "" if key is None else key.partition("/")[2]
        async with self._rejections_ignored():
            if key is None or what < 0.4:
                self._number += 1
                metadata = {"name": f"t-{self._number}", "namespace": "default", "finalizers": [_HOLD]}
                self._environment.trace.add("user", f"requests thing {metadata['name']}")
                await things.create({"apiVersion": "sim.fairlead.dev/v1", "kind": "Thing", "metadata": metadata})
            elif what < 0.8:
                grace = chance.choice([None, 0, 1, 5, 30, 30, 300])
                within = "" if grace is None else f" within {grace} s"
                self._environment.trace.add("user", f"requests deletion of thing {name}{within}")
                await things.delete(name, namespace="default", grace_period_seconds=grace)
            else:
                self._environment.trace.add("user", f"removes the finalizers of thing {name}")
                await things.patch(name, _NO_FINALIZERS, namespace="default")

    async def lose_a_machine(self, chance: Randomness) -> None:
        """Delete a machine from its cloud, or unplug it if it has no cloud; its node becomes NotReady."""
        node = self._any(NODES, chance)
        if node is None or node not in self._machines:
            return
        cloud = self._cloud_of(node)
        if cloud is not None:
            if node not in cloud.machines:
                return
            cloud.remove(node)
        self._environment.trace.add("user", f"deletes the machine of {node}")
        self._machines[node].unplug()
        await self.set_node_not_ready(node)
        if cloud is None:
            await self._environment.clock.sleep(chance.uniform(30.0, 90.0))
            self._machines[node].plug_in()

    async def set_node_not_ready(self, name: str) -> None:
        """Set a node NotReady. Its kubelet sets it Ready again."""
        async with self._rejections_ignored():
            await self._client.of(_NODES).patch(name, _ready("Unknown"), subresource="status")

    async def recreate_a_node(self, chance: Randomness) -> None:
        """Delete a node, if it exists, and create it again with the same name."""
        name = chance.choice(sorted(self._nodes))
        self._environment.trace.add("user", f"recreates {name}")
        async with self._rejections_ignored():
            await self._client.of(_NODES).delete(name)
        async with self._rejections_ignored():
            await self._make_node(name, self._nodes[name])

    async def annotate_a_node(self, chance: Randomness) -> None:
        """Annotate an unmanaged node as a cloud's machine, and remove the annotation after a while."""
        name = chance.choice(sorted(name for name, platform in self._nodes.items() if not platform))
        platform = chance.choice(sorted(self._clouds))
        self._environment.trace.add("user", f"annotates {name} as a machine of {platform}")
        for said in (platform, None):
            async with self._rejections_ignored():
                patch = patches.MergePatch({"metadata": {"annotations": {ANNOTATION_PLATFORM: said}}})
                await self._client.of(_NODES).patch(name, patch)
            await self._environment.clock.sleep(chance.uniform(20.0, 90.0) if said else 0.0)

    async def restore_nodes(self) -> None:
        """Create missing nodes again, and uncordon idle ones, so that pods can be scheduled."""
        busy = {event["spec"]["bindingNode"] for event in self._commits.of(EVENTS).values()}
        for name, node in list(self._commits.of(NODES).items()):
            if node["spec"].get("unschedulable") and name not in busy:
                async with self._rejections_ignored():
                    await self._client.of(_NODES).patch(name, _OPEN)
        for name, platform in self._nodes.items():
            cloud = self._clouds.get(platform)
            if cloud is not None and name not in cloud.machines:
                async with self._rejections_ignored():
                    await self._client.of(_NODES).delete(name)
            if name not in self._commits.of(NODES):
                async with self._rejections_ignored():
                    await self._make_node(name, platform)

    async def _make_node(self, name: str, platform: str) -> None:
        cloud = self._clouds.get(platform)
        provider_id = f"{platform}://{name}" if platform else ""
        if cloud is not None:
            cloud.add(name, provider_id)
        machine = self._machines.get(name)
        if machine is not None and not machine.has_power:
            machine.plug_in()
        nodes = self._client.of(_NODES)
        number = sorted(self._nodes).index(name)
        cidr = f"10.244.{number}.0/24" if number < 256 else f"10.245.{number - 256}.0/24"
        spec: dict[str, Any] = {"podCIDR": cidr, "podCIDRs": [cidr]}
        if provider_id:
            spec["providerID"] = provider_id
        else:
            self._route_to_unmanaged_nodes(cidr)
        # An old label, which a cloud controller manager would update on its own nodes.
        labels = {"failure-domain.beta.kubernetes.io/zone": "attic", ZONE_LABEL: f"zone-{number % 2}"}
        metadata = {"name": name, "labels": labels}
        await nodes.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
        await nodes.patch(name, _ready("True"), subresource="status")

    def _route_to_unmanaged_nodes(self, cidr: str) -> None:
        """Create the administrator's routes to unmanaged nodes, in each cloud."""
        route = Route(destination_cidr=cidr, target_node="router", name=ADMINISTRATORS)
        for cloud in self._clouds.values():
            if route not in cloud.table:
                cloud.table.append(route)

    def _cloud_of(self, node: str | None) -> SimCloud | None:
        stored = None if node is None else self._commits.of(NODES).get(node)
        return None if stored is None else self._clouds.get(str(stored["spec"].get("providerID", "")).partition(":")[0])

    def _any(self, table: str, chance: Randomness) -> str | None:
        keys = sorted(self._commits.of(table))
        return chance.choice(keys) if keys else None

    @contextlib.asynccontextmanager
    async def _rejections_ignored(self) -> AsyncIterator[None]:
        try:
            yield
        except (api_errors.ApiError, errors.ClientError) as error:
            self._environment.counts[f"user got {type(error).__name__}"] += 1


def _ready(status: str) -> patches.Patch:
    return patches.StrategicMergePatch(
        {"status": {"conditions": [{"type": "Ready", "status": status, "reason": "Sim"}]}}
    )


def _definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.sim.fairlead.dev"},
        "spec": {
            "group": "sim.fairlead.dev",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
