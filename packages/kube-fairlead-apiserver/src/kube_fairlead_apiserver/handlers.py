"""The handlers of requests for resources: every verb, and every subresource with its own behaviour.

The handlers import more than half of the program (printers, patches), so the first request for a resource loads them.
The server is ready before.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from kube_fairlead.api import errors
from kube_fairlead_apiserver.dispatch import Handler, Handlers
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.subresources import binding, eviction, finalize, scale
from kube_fairlead_apiserver.verbs.call import Call
from kube_fairlead_apiserver.verbs.create import create
from kube_fairlead_apiserver.verbs.delete import delete, delete_collection
from kube_fairlead_apiserver.verbs.get import get
from kube_fairlead_apiserver.verbs.list import list_objects
from kube_fairlead_apiserver.verbs.patch import patch
from kube_fairlead_apiserver.verbs.update import update
from kube_fairlead_apiserver.verbs.watch import watch
from kube_fairlead_apiserver.verbs.watch_timers import WatchTimers

__all__ = ["all_handlers"]


async def _no_kubelet(call: Call) -> Response:
    raise errors.ServiceUnavailable(
        f"this API server reaches no kubelets, so {call.resource.plural}/{call.info.subresource} is not served"
    )


# By resource and subresource; "*" is any resource.
_SUBRESOURCES: Mapping[tuple[str, str], Handler] = {
    ("pods", "eviction"): eviction.evict,
    ("pods", "binding"): binding.bind,
    ("namespaces", "finalize"): finalize.finalize,
    ("*", "scale"): scale.scale,
    ("pods", "log"): _no_kubelet,
    ("pods", "exec"): _no_kubelet,
    ("pods", "attach"): _no_kubelet,
    ("pods", "portforward"): _no_kubelet,
    ("*", "proxy"): _no_kubelet,
}

# Resources that are posted and never stored, by table.
_NOT_STORED: Mapping[str, Handler] = {
    "bindings": binding.bind_by_body,
}


def all_handlers(timers: WatchTimers, access: Handlers) -> Handlers:
    """Return all handlers. `access` are those of tokens and permissions; `timers` end watches and send bookmarks."""
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
    return Handlers(verbs, {**_SUBRESOURCES, **access.subresources}, {**_NOT_STORED, **access.not_stored})
