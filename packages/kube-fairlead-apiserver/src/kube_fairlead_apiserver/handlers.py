"""What answers requests for resources: every verb, and the subresources with a behaviour of their own.

It brings in the larger half of the program, printers and patches and all, so it is loaded with the first such request:
a server that starts is ready without.
"""

from __future__ import annotations

import functools

from kube_fairlead_apiserver.dispatch import Handler, Handlers
from kube_fairlead_apiserver.subresources import table
from kube_fairlead_apiserver.verbs.create import create
from kube_fairlead_apiserver.verbs.delete import delete, delete_collection
from kube_fairlead_apiserver.verbs.get import get
from kube_fairlead_apiserver.verbs.list import list_objects
from kube_fairlead_apiserver.verbs.patch import patch
from kube_fairlead_apiserver.verbs.update import update
from kube_fairlead_apiserver.verbs.watch import watch
from kube_fairlead_apiserver.verbs.watch_timers import WatchTimers

__all__ = ["all_handlers"]


def all_handlers(timers: WatchTimers, access: Handlers) -> Handlers:
    """Everything there is. `access` are those about tokens and permissions, `timers` end watches and send bookmarks."""
    verbs: dict[str, Handler] = {
        "get": get,
        "list": list_objects,
        "watch": functools.partial(watch, timers=timers),
        "create": create,
        "update": update,
        "patch": patch,
        "delete": delete,
        "deletecollection": delete_collection,
    }
    return Handlers(verbs, {**table.SUBRESOURCES, **access.subresources}, {**table.ASKED, **access.asked})
