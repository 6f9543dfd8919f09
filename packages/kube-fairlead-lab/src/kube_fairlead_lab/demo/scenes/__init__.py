"""The scenes, in the order they are played. Each module has a `SCENE`; the table imports none of them."""

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
        "the grace reaches the controller, can only get shorter, and the object goes when the controller is done",
    ),
    SceneEntry(
        "transition",
        "kube_fairlead_lab.demo.scenes.transition",
        "A driver carries out a transition on a node",
        "an event is claimed, run and finished, in states that everybody can see; one that takes too long expires",
    ),
    SceneEntry(
        "killed-agent",
        "kube_fairlead_lab.demo.scenes.killed_agent",
        "An agent is killed in the middle of its work",
        "the next agent goes on with the step that is missing, and nothing is done twice",
    ),
    SceneEntry(
        "drain",
        "kube_fairlead_lab.demo.scenes.drain",
        "A node is drained on the server's side",
        "a disruption budget blocks the drain, the drain says so, and goes on the moment the budget allows it",
    ),
    SceneEntry(
        "hybrid-clouds",
        "kube_fairlead_lab.demo.scenes.hybrid_clouds",
        "Two clouds and a machine of nobody's in one cluster",
        "when a machine vanishes in one cloud, its own node goes, and no other is touched",
    ),
    SceneEntry(
        "leader-transition",
        "kube_fairlead_lab.demo.scenes.leader_transition",
        "Three managers: the leader yields and stays, then one is killed",
        "leadership passes in milliseconds, in order, without a restart; after a crash, when the lease has run out",
    ),
    SceneEntry(
        "node-shutdown",
        "kube_fairlead_lab.demo.scenes.node_shutdown",
        "A machine goes down, and its agent is killed in the middle",
        "pods end in order of priority and in time; the next agent goes on with the time that is left",
    ),
)
SCENES = {entry.name: entry for entry in _ENTRIES}
