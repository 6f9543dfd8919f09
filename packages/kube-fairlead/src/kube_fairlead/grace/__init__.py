"""For controllers that honour a deletion grace period.

Here belongs what a controller with a finalizer needs to know about an object that is being deleted: how much time was
granted, how much is left, whether it was forced, and how to wait for the end of it. It reads what an API server
keeps in ``metadata``, on our server and, through the annotations of `fairlead webhook`, on stock Kubernetes.
It never deletes anything, removes no finalizer and decides nothing about an object that its controller should decide.
Before: `client`. After: every controller, ours and yours.

    async with grace.follow(api, vm, native=await grace.is_native(client), default_seconds=30) as countdown:
        try:
            await countdown.within(machine.shut_down())
        except grace.DeadlinePassed:
            machine.power_off()
"""

from kube_fairlead.grace.countdown import Countdown, DeadlinePassed
from kube_fairlead.grace.deadline_watch import follow
from kube_fairlead.grace.grace_period import Grace, deadline, is_forced, read, remaining, requested
from kube_fairlead.grace.servers import is_native

__all__ = [
    "Countdown",
    "DeadlinePassed",
    "Grace",
    "deadline",
    "follow",
    "is_forced",
    "is_native",
    "read",
    "remaining",
    "requested",
]
