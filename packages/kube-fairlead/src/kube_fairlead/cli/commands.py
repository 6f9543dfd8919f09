"""The table of commands, in the order of `fairlead --help`. It imports none of them.

A command of the product is named here by its module. Other distributions add commands by the entry point group
`fairlead.commands`. The commands of Fairlead's other two distributions are named here too: help shows which
distribution to install.
"""

from __future__ import annotations

import dataclasses
import importlib
import operator
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["COMMANDS", "GROUP", "Entry", "InstalledCommand", "installed"]

GROUP = "fairlead.commands"
_APISERVER = "kube-fairlead-apiserver"
_LAB = "kube-fairlead-lab"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One command. Its module defines a click command called `command`, whose help begins with `summary`.

    A command has a module, or a distribution that adds it by entry point. Its return value is the exit code; None is 0.
    """

    name: str
    summary: str
    module: str = ""
    distribution: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class InstalledCommand:
    """A command that an installed distribution adds by entry point."""

    target: str  # module:name
    distribution: str

    def load(self) -> Any:
        """Import the command."""
        module, _, name = self.target.partition("[")[0].strip().partition(":")
        return operator.attrgetter(name or "command")(importlib.import_module(module))


COMMANDS: tuple[Entry, ...] = (
    Entry("demo", "Run every feature on a temporary control plane, check the results, and exit.", distribution=_LAB),
    Entry("apiserver", "Serve the Kubernetes API from one process, over SQLite.", distribution=_APISERVER),
    Entry("drain", "Drain nodes before maintenance; a driver on each node evicts its pods.", "kube_fairlead.cli.drain"),
    Entry("uncordon", "Make nodes schedulable again after `fairlead drain`.", "kube_fairlead.cli.uncordon"),
    Entry("maintain", "Drain nodes, run a command for each, and uncordon them.", "kube_fairlead.cli.maintain"),
    Entry(
        "agent", "Claim the LifecycleEvents of one node and call drivers to carry them out.", "kube_fairlead.cli.agent"
    ),
    Entry(
        "hold",
        "Run an agent, hold its shutdown inhibitor lock, and restart it if it is killed.",
        "kube_fairlead.cli.hold",
    ),
    Entry("driver", "Run a driver, which carries out the LifecycleEvents of a node.", "kube_fairlead.cli.driver"),
    Entry(
        "controller-manager",
        "Run Fairlead's cluster controllers, such as the garbage collection of LifecycleEvents.",
        "kube_fairlead.cli.controller_manager",
    ),
    Entry(
        "cloud-controller-manager",
        "Run the cloud controllers for the nodes of one cloud: initialize, update and delete nodes, as the cloud "
        "reports.",
        "kube_fairlead.cli.cloud_controller_manager",
    ),
    Entry(
        "status",
        "Show the LifecycleEvent of each node, the process that claimed it, and what blocks it.",
        "kube_fairlead.cli.status",
    ),
    Entry(
        "history", "Show the finished LifecycleEvents of nodes, with requester and result.", "kube_fairlead.cli.history"
    ),
    Entry(
        "doctor", "Check a cluster for problems with Fairlead, and show how to fix them.", "kube_fairlead.cli.doctor"
    ),
    Entry(
        "hollow",
        "Run nodes that exist only in the API: they register, heartbeat, run pods and terminate them.",
        distribution=_LAB,
    ),
    Entry(
        "webhook",
        "Serve the admission webhooks that Fairlead needs on a Kubernetes API server.",
        "kube_fairlead.cli.webhook",
    ),
    Entry(
        "sim",
        "Simulate all components on virtual time, with random faults, and check the invariants.",
        distribution=_LAB,
    ),
    Entry(
        "install", "Print the manifests that install Fairlead in a cluster, or remove it.", "kube_fairlead.cli.install"
    ),
)


def installed() -> dict[str, InstalledCommand]:
    """The commands that installed distributions add, by name.

    The files are read directly: `importlib.metadata` takes 40 ms to load, a quarter of the time budget of help.
    """
    found: dict[str, InstalledCommand] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            names = sorted(path.name for path in pathlib.Path(folder).iterdir() if path.suffix == ".dist-info")
        except OSError:  # a zip file, or it does not exist
            continue
        for name in names:
            for command, target in _section(pathlib.Path(folder, name, "entry_points.txt")):
                found.setdefault(command, InstalledCommand(target, name.partition("-")[0].replace("_", "-")))
    return found


def _section(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):  # most distributions have no entry points; a file may be broken
        return
    is_ours = False
    for line in map(str.strip, lines):
        if line.startswith("["):
            is_ours = line == f"[{GROUP}]"
        elif is_ours and "=" in line:
            name, _, target = line.partition("=")
            yield name.strip(), target.strip()
