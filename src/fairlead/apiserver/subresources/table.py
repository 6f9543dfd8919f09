"""The one list of subresources that have a behaviour of their own, and of resources that are asked but never stored."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api import errors
from fairlead.apiserver.dispatch import Handler
from fairlead.apiserver.http.messages import Response
from fairlead.apiserver.subresources import binding, eviction, finalize, scale
from fairlead.apiserver.verbs.call import Call

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
