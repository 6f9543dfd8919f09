"""The scenes, in the order in which they run. The table names their modules and imports none of them."""

from __future__ import annotations

import dataclasses

__all__ = ["SCENES", "SceneEntry"]


@dataclasses.dataclass(frozen=True, slots=True)
class SceneEntry:
    """One scene: its module defines `async def play(context)`."""

    name: str
    module: str
    title: str
    proves: str


_ENTRIES = (
    SceneEntry(
        "api-server",
        "kube_fairlead_lab.demo.scenes.api_server",
        "A Kubernetes API server in one process",
        "objects are created, watched and deleted as on any Kubernetes; nothing else is installed",
    ),
    SceneEntry(
        "graceful-deletion",
        "kube_fairlead_lab.demo.scenes.graceful_deletion",
        "A custom resource is deleted with a grace period",
        "the controller gets the grace period; a later request can only shorten it; the finalizer decides the end",
    ),
    SceneEntry(
        "transition",
        "kube_fairlead_lab.demo.scenes.transition",
        "A driver carries out a transition on a node",
        "an event is claimed, carried out and finished, every state visible in the API; a late one expires",
    ),
    SceneEntry(
        "killed-agent",
        "kube_fairlead_lab.demo.scenes.killed_agent",
        "An agent is killed during a transition",
        "the next agent resumes at the missing step and repeats none that has finished",
    ),
    SceneEntry(
        "drain",
        "kube_fairlead_lab.demo.scenes.drain",
        "A node is drained by its own agent",
        "a disruption budget blocks the drain, the drain reports it, and continues as soon as the budget allows it",
    ),
    SceneEntry(
        "hybrid-clouds",
        "kube_fairlead_lab.demo.scenes.hybrid_clouds",
        "Two clouds and one unmanaged node in one cluster",
        "when a machine is deleted in one cloud, its node is deleted, and no other node is changed",
    ),
    SceneEntry(
        "leader-transition",
        "kube_fairlead_lab.demo.scenes.leader_transition",
        "Three managers: the leader yields and keeps running, then the next leader is killed",
        "leadership changes in milliseconds without a restart; after a crash, when the Lease expires",
    ),
    SceneEntry(
        "node-shutdown",
        "kube_fairlead_lab.demo.scenes.node_shutdown",
        "A node shuts down, and its agent is killed during the shutdown",
        "pods terminate in order of priority and in time; the next agent resumes with the time that is left",
    ),
)
SCENES = {entry.name: entry for entry in _ENTRIES}
