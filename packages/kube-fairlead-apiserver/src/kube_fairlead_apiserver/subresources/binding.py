"""pods/binding: a scheduler posts it to assign a pod to a node.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/pod/storage/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from kube_fairlead.api import errors, golang
from kube_fairlead.api.gvk import GroupResource, GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time
from kube_fairlead_apiserver.http.messages import Response, json_response
from kube_fairlead_apiserver.operations.update import SubresourceView, update
from kube_fairlead_apiserver.types import schemas
from kube_fairlead_apiserver.verbs.body import read_object
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["BINDING", "bind", "bind_by_body"]

BINDING = GroupVersionKind("", "v1", "Binding")


async def bind(call: Call) -> Response:
    """Handle POST pods/NAME/binding."""
    binding = await read_object(call, BINDING, schemas.node(BINDING))
    if (binding.get("metadata") or {}).get("name") != call.info.name:
        raise errors.BadRequest("name in URL does not match name in Binding object")
    return await _bind(call, binding, call.info.name)


async def bind_by_body(call: Call) -> Response:
    """Handle POST bindings: the older path, with the pod's name in the body only."""
    binding = await read_object(call, BINDING, schemas.node(BINDING))
    return await _bind(call, binding, (binding.get("metadata") or {}).get("name") or "")


async def _bind(call: Call, binding: Json, name: str) -> Response:
    target = binding.get("target") or {}
    if target.get("kind") not in {None, "", "Node", "Minion"}:
        raise errors.BadRequest('target.kind: Unsupported value: supported values: "Node", "<empty>"')
    node = target.get("name")
    if not node:
        raise errors.BadRequest("target.name: Required value")
    pods = call.core.catalog.get("", "v1", "pods")
    if pods is None:
        raise errors.NotFound("pods are not served")
    about = GroupResource("", "pods/binding")
    now = format_time(call.core.clock.now())
    wanted = binding.get("metadata") or {}

    async def mutation(pod: Json) -> Json:
        metadata = pod["metadata"]
        if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
            raise errors.conflict(about, name, "Precondition failed: UID of the binding is not the pod's")
        if metadata.get("deletionTimestamp"):
            raise errors.conflict(about, name, f"pod {metadata['name']} is being deleted, cannot be assigned to a host")
        spec = pod["spec"]
        if spec.get("nodeName"):
            raise errors.conflict(
                about, name, f"pod {name} is already assigned to node {golang.quote(spec['nodeName'])}"
            )
        spec["nodeName"] = node
        for field in ("annotations", "labels"):
            if wanted.get(field):
                metadata[field] = {**(metadata.get(field) or {}), **wanted[field]}
        _set_scheduled(pod.setdefault("status", {}), now)
        return pod

    await update(
        call.core,
        pods,
        namespace=call.info.namespace,
        name=name,
        mutation=mutation,
        options=call.write_options("CreateOptions"),
        subresource="binding",
        view=SubresourceView(
            (BINDING.group, BINDING.version, BINDING.kind),
            show=lambda _pod: binding,
            take=lambda pod, shown: pod["spec"].update(nodeName=shown["target"]["name"]),
            operation="CREATE",
        ),
    )
    return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def _set_scheduled(status: Json, now: str) -> None:
    conditions = status.setdefault("conditions", [])
    conditions[:] = [c for c in conditions if c.get("type") != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now, "lastProbeTime": None})
