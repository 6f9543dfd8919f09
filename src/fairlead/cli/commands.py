"""Every command there is, in the order that help shows them. The table imports none of them."""

from __future__ import annotations

import dataclasses

__all__ = ["COMMANDS", "Entry"]


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One command: its module defines a click command called `command`, whose help begins with `summary`.

    What the command returns is the exit code; None is 0.
    """

    name: str
    module: str
    summary: str


COMMANDS: tuple[Entry, ...] = (
    Entry("demo", "fairlead.cli.demo", "Show what Fairlead does, on a control plane of its own; ends by itself."),
    Entry("apiserver", "fairlead.cli.apiserver", "Serve the Kubernetes API from one process, over SQLite."),
    Entry("drain", "fairlead.cli.drain", "Drain nodes in preparation for maintenance, on the server's side."),
    Entry("uncordon", "fairlead.cli.uncordon", "Mark nodes as schedulable again, after a drain of Fairlead's."),
    Entry("maintain", "fairlead.cli.maintain", "Drain nodes, do the maintenance, and put them back into service."),
    Entry("agent", "fairlead.cli.agent", "Claim the lifecycle events of one node and have drivers carry them out."),
    Entry("hold", "fairlead.cli.hold", "Keep the shutdown lock of an agent, and start it again when it is killed."),
    Entry("driver", "fairlead.cli.driver", "Run a lifecycle driver on a node."),
    Entry(
        "controller-manager",
        "fairlead.cli.controller_manager",
        "Look after lifecycle objects from outside their nodes.",
    ),
    Entry(
        "cloud-controller-manager",
        "fairlead.cli.cloud_controller_manager",
        "Bring the nodes of one cloud in line with that cloud.",
    ),
    Entry("status", "fairlead.cli.status", "Show what each node is doing, who holds it, what blocks it."),
    Entry("history", "fairlead.cli.history", "Show what was done to nodes, by whom, and how it ended."),
    Entry("doctor", "fairlead.cli.doctor", "Show what is wrong with this cluster for Fairlead, and how to fix it."),
    Entry(
        "hollow",
        "fairlead.cli.hollow",
        "Be nodes that exist only in the API: they register, heartbeat, run pods and end them.",
    ),
    Entry("webhook", "fairlead.cli.webhook", "Record the deletion grace of custom resources on stock Kubernetes."),
    Entry("sim", "fairlead.cli.sim", "Play the whole system on virtual time, under seeded faults."),
    Entry("install", "fairlead.cli.install", "Print the manifests for a real cluster."),
)
