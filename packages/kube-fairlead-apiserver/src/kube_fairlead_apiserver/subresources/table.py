"""The one list of subresources that have a behaviour of their own, and of resources that are asked but never stored."""

from __future__ import annotations

from collections.abc import Mapping

from kube_fairlead.api import errors
from kube_fairlead_apiserver.dispatch import Handler
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.subresources import binding, eviction, finalize, scale
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["ASKED", "SUBRESOURCES"]


async def _no_kubelet(call: Call) -> Response:
    raise errors.ServiceUnavailable(
        f"this API server reaches no kubelets, so {call.resource.plural}/{call.info.subresource} is not served"
    )


# By resource and subresource; "*" is any resource.
SUBRESOURCES: Mapping[tuple[str, str], Handler] = {
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

# By table.
ASKED: Mapping[str, Handler] = {
    "bindings": binding.bind_by_body,
}
