"""Runs controllers under leader election: starts them in order, stops them in order, and sees that nothing is left.

Here belongs what every manager needs whatever its controllers do: groups of runnables, the life of a controller within
a term, several locks in one process and their balance, health pages, metrics that outlive terms, leak detection. What a
controller does never belongs here: `controllers` and `cloud` bring theirs.
Before: `election`, which says who leads. After: the components that bring controllers, and the command line.

    queue = context.queue()
    informer.add_handler(Handler(on_add=lambda pod: queue.add(pod.key)))
    async with informer.running():
        await context.reconcile(queue, handle)   # returns when the term ends
"""

from kube_fairlead.manager.controller import Context, Controller
from kube_fairlead.manager.delegated_authorization import ALWAYS_ALLOWED, DelegatedAuthorizer
from kube_fairlead.manager.discovery import GroupDiscovery
from kube_fairlead.manager.group import GroupPlan
from kube_fairlead.manager.health import HealthChecks, Verdict
from kube_fairlead.manager.health_server import HealthServer, ServingOptions
from kube_fairlead.manager.manager import Manager, ManagerOptions
from kube_fairlead.manager.resource_presence import Presence, ServedDefinition, Switch
from kube_fairlead.manager.selection import SelectionError, parse_groups, select

__all__ = [
    "ALWAYS_ALLOWED",
    "Context",
    "Controller",
    "DelegatedAuthorizer",
    "GroupDiscovery",
    "GroupPlan",
    "HealthChecks",
    "HealthServer",
    "Manager",
    "ManagerOptions",
    "Presence",
    "SelectionError",
    "ServedDefinition",
    "ServingOptions",
    "Switch",
    "Verdict",
    "parse_groups",
    "select",
]
