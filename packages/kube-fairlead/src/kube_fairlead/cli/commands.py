"""Every command there is, in the order that help shows them. The table imports none of them.

The product's own commands are named here by module. Other distributions bring theirs by the entry point group
`fairlead.commands`; those of the project's other two distributions are named here too, so that help shows them and a
user who lacks one learns which distribution to install.
"""

from __future__ import annotations

import dataclasses
import importlib
import operator
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["COMMANDS", "GROUP", "Brought", "Entry", "installed"]

GROUP = "fairlead.commands"
_APISERVER = "kube-fairlead-apiserver"
_LAB = "kube-fairlead-lab"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One command. Its module defines a click command called `command`, whose help begins with `summary`.

    A command has a module, or the distribution that brings it by entry point.
    What the command returns is the exit code; None is 0.
    """

    name: str
    summary: str
    module: str = ""
    distribution: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Brought:
    """A command that an installed distribution brings by entry point."""

    target: str  # module:name
    distribution: str

    def load(self) -> Any:
        """Import it."""
        module, _, name = self.target.partition("[")[0].strip().partition(":")
        return operator.attrgetter(name or "command")(importlib.import_module(module))


COMMANDS: tuple[Entry, ...] = (
    Entry("demo", "Show what Fairlead does, on a control plane of its own, and exit.", distribution=_LAB),
    Entry("apiserver", "Serve the Kubernetes API from one process, over SQLite.", distribution=_APISERVER),
    Entry("drain", "Drain nodes in preparation for maintenance, on the server's side.", "kube_fairlead.cli.drain"),
    Entry("uncordon", "Mark nodes as schedulable again, after a drain of Fairlead's.", "kube_fairlead.cli.uncordon"),
    Entry("maintain", "Drain nodes, do the maintenance, and put them back into service.", "kube_fairlead.cli.maintain"),
    Entry(
        "agent", "Claim the lifecycle events of one node and have drivers carry them out.", "kube_fairlead.cli.agent"
    ),
    Entry(
        "hold", "Keep the shutdown lock of an agent, and start it again when it is killed.", "kube_fairlead.cli.hold"
    ),
    Entry("driver", "Run a lifecycle driver on a node.", "kube_fairlead.cli.driver"),
    Entry(
        "controller-manager",
        "Run the cluster's lifecycle controllers: clean-up, stalls, shutdowns, and events of nodes without an agent.",
        "kube_fairlead.cli.controller_manager",
    ),
    Entry(
        "cloud-controller-manager",
        "Bring the nodes of one cloud in line with that cloud.",
        "kube_fairlead.cli.cloud_controller_manager",
    ),
    Entry("status", "Show what each node is doing, who holds it, what blocks it.", "kube_fairlead.cli.status"),
    Entry("history", "Show what was done to nodes, by whom, and how it ended.", "kube_fairlead.cli.history"),
    Entry(
        "doctor", "Show what is wrong with this cluster for Fairlead, and how to fix it.", "kube_fairlead.cli.doctor"
    ),
    Entry(
        "hollow",
        "Run nodes that exist only in the API: they register, heartbeat, run pods and terminate them.",
        distribution=_LAB,
    ),
    Entry("webhook", "Record the deletion grace of custom resources on stock Kubernetes.", "kube_fairlead.cli.webhook"),
    Entry("sim", "Play the whole system on virtual time, under seeded faults.", distribution=_LAB),
    Entry("install", "Print the manifests for a real cluster.", "kube_fairlead.cli.install"),
)


def installed() -> dict[str, Brought]:
    """The commands that other installed distributions bring, by name.

    Read from the files themselves: `importlib.metadata` takes 40 ms to load, a quarter of what help may take.
    """
    found: dict[str, Brought] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            names = sorted(path.name for path in pathlib.Path(folder).iterdir() if path.suffix == ".dist-info")
        except OSError:  # a zip file, or not there at all
            continue
        for name in names:
            for command, target in _section(pathlib.Path(folder, name, "entry_points.txt")):
                found.setdefault(command, Brought(target, name.partition("-")[0].replace("_", "-")))
    return found


def _section(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):  # most distributions have no entry points; one may have broken ones
        return
    is_ours = False
    for line in map(str.strip, lines):
        if line.startswith("["):
            is_ours = line == f"[{GROUP}]"
        elif is_ours and "=" in line:
            name, _, target = line.partition("=")
            yield name.strip(), target.strip()
