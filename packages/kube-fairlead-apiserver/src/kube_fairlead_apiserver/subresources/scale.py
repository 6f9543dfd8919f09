"""scale: reads and writes the replicas of any scalable kind as a Scale, which autoscalers and kubectl use.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/apps/deployment/storage/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/apps/replicaset/storage/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/apps/statefulset/storage/storage.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresource/etcd.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/scalehandler.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/autoscaling/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_fairlead.api import errors, selectors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupKind, GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.offload import weigh
from kube_fairlead_apiserver.operations import field_ownership
from kube_fairlead_apiserver.operations.update import SubresourceView, update
from kube_fairlead_apiserver.patch.json_patch import apply_json_patch
from kube_fairlead_apiserver.patch.merge_patch import apply_merge_patch
from kube_fairlead_apiserver.registry.resource import ScalePaths
from kube_fairlead_apiserver.schema.typed_decoder import TypeMismatch, conform
from kube_fairlead_apiserver.types import schemas
from kube_fairlead_apiserver.verbs import patch as patch_verb
from kube_fairlead_apiserver.verbs import presentation
from kube_fairlead_apiserver.verbs.body import decode_json, decode_yaml, read_object
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["SCALE", "scale"]

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


async def scale(call: Call) -> Response:
    """Handle GET, PUT and PATCH."""
    form = presentation.negotiate(call.request)
    paths = call.resource.scale or ScalePaths()
    resource = call.resource
    if call.info.verb == "get":
        entry = call.core.store.read(resource.table, resource.key(call.info.namespace, call.info.name))
        if entry is None:
            raise errors.not_found(resource.group_resource, call.info.name)
        weigh(len(entry.tail))
        obj = await call.core.offload.run(resource.decode, entry)
        return presentation.one_object(call, form, _scale_of(obj, paths))
    body = await read_object(call, SCALE, schemas.node(SCALE)) if call.info.verb == "update" else None
    if body is not None:
        call.check_named(body)
    change = None if body is not None else await _read_patch(call)
    applies = body is None and _media(call) == patch_verb.APPLY_PATCH

    async def mutation(current: Json) -> Json:
        seen = _scale_of(current, paths)
        run = call.core.offload.run
        wanted = body if body is not None else await run(change, seen) if change is not None else seen
        await run(_check, call, wanted)
        asked = (wanted.get("metadata") or {}).get("resourceVersion")
        if asked:
            current["metadata"]["resourceVersion"] = asked
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if applies:
            return await run(_applied, call, current, paths, replicas)
        _write(current, paths.spec_replicas, replicas)
        return current

    result = await update(
        call.core,
        resource,
        namespace=call.info.namespace,
        name=call.info.name,
        mutation=mutation,
        options=call.write_options("UpdateOptions" if body is not None else "PatchOptions"),
        subresource="scale",
        tracked=applies,
        view=SubresourceView(
            (SCALE.group, SCALE.version, SCALE.kind),
            show=lambda obj: _scale_of(obj, paths),
            take=lambda obj, shown: _write(obj, paths.spec_replicas, (shown.get("spec") or {}).get("replicas", 0)),
        ),
    )
    return presentation.one_object(call, form, _scale_of(result.obj, paths))


def _applied(call: Call, current: Json, paths: ScalePaths, replicas: int) -> Json:
    """Return the object with the replicas that its manager applied through Scale, if no other manager owns them."""
    resource = call.resource
    wanted: Json = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": call.info.name},
    }
    _write(wanted, paths.spec_replicas, replicas)
    query = call.request.query
    try:
        return field_ownership.apply_existing(
            call.core,
            resource,
            current,
            wanted,
            query.get("fieldManager"),
            force=query.flag("force"),
            subresource="scale",
        )
    except errors.Conflict as error:
        raise _as_seen_by_scale(error, resource.api_version) from None


def _as_seen_by_scale(error: errors.Conflict, api_version: str) -> errors.Conflict:
    """Return the managedFields of a Scale: the owners of the replicas, as owners of the Scale."""

    def seen(text: str) -> str:
        return text.replace(f" using {api_version}", f" using {SCALE.api_version}")

    causes = [{**cause, "message": seen(cause["message"])} for cause in (error.details or {}).get("causes", ())]
    return errors.Conflict(seen(error.message), details={**(error.details or {}), "causes": causes})


def _media(call: Call) -> str:
    return call.request.header("content-type").partition(";")[0].strip()


async def _read_patch(call: Call) -> Callable[[Json], Any]:
    data = await call.request.read_body()
    weigh(len(data))
    return await call.core.offload.run(_decode_patch, _media(call), data)


def _decode_patch(media: str, data: bytes) -> Callable[[Json], Any]:
    if media == patch_verb.JSON_PATCH:
        operations = patch_verb.decode_patch(data)
        return lambda seen: apply_json_patch(seen, operations)
    if media in {patch_verb.MERGE_PATCH, patch_verb.STRATEGIC_PATCH}:
        changes = decode_json(data, "Scale")
        return lambda seen: apply_merge_patch(seen, changes)
    if media == patch_verb.APPLY_PATCH:
        applied = decode_yaml(data, "Scale").value
        return lambda seen: apply_merge_patch(seen, {"spec": applied.get("spec")})
    raise errors.unsupported_media_type((patch_verb.JSON_PATCH, patch_verb.MERGE_PATCH, patch_verb.APPLY_PATCH))


def _check(call: Call, wanted: Any) -> None:
    """Validate a Scale: its type and the number of replicas."""
    kind = GroupKind("autoscaling", "Scale")
    node = schemas.node(SCALE)
    try:
        if node is not None:
            conform(node, wanted)
    except TypeMismatch as error:
        raise errors.BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {error}') from error
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        path = FieldPath("spec").child("replicas")
        problem = FieldError.invalid(path, replicas, "must be greater than or equal to 0")
        raise errors.invalid(kind, call.info.name, [problem])


def _scale_of(obj: Json, paths: ScalePaths) -> Json:
    metadata = obj["metadata"]
    shown = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in metadata
    }
    status: Json = {"replicas": _read(obj, paths.status_replicas) or 0}
    selector = None if paths.selector is None else _read(obj, paths.selector)
    if isinstance(selector, dict):
        if "matchLabels" not in selector and "matchExpressions" not in selector:
            selector = {"matchLabels": selector}  # a ReplicationController's selector is a bare map
        selector = str(selectors.label_selector_from(selector))
    if selector:
        status["selector"] = selector
    spec: Json = {}
    replicas = _read(obj, paths.spec_replicas)
    if replicas:
        spec["replicas"] = replicas
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status}


def _read(obj: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def _write(obj: Json, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        obj = obj.setdefault(key, {})
    obj[path[-1]] = value
