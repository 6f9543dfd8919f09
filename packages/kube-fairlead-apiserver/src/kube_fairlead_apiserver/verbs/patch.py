"""PATCH: change part of an object, in the four patch types of Kubernetes.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/patch.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/structuredmerge.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/versioncheck.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupKind, GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.offload import weigh
from kube_fairlead_apiserver.operations import field_ownership
from kube_fairlead_apiserver.operations.core import WriteOptions
from kube_fairlead_apiserver.operations.update import update as update_object
from kube_fairlead_apiserver.patch.depth_limit import ensure_depth
from kube_fairlead_apiserver.patch.json_patch import apply_json_patch
from kube_fairlead_apiserver.patch.merge_patch import apply_merge_patch
from kube_fairlead_apiserver.patch.strategic import apply_strategic_merge_patch
from kube_fairlead_apiserver.patch.value_limit import ensure_few_values
from kube_fairlead_apiserver.schema.defaulting import copy_json
from kube_fairlead_apiserver.schema.duplicates import duplicate_fields
from kube_fairlead_apiserver.schema.jsontext import decode_json_text
from kube_fairlead_apiserver.verbs import presentation
from kube_fairlead_apiserver.verbs.body import check_fields, check_kind, decode_yaml, warnings_of
from kube_fairlead_apiserver.verbs.call import Call
from kube_fairlead_apiserver.verbs.create import create_absent

__all__ = ["APPLY_PATCH", "JSON_PATCH", "MERGE_PATCH", "STRATEGIC_PATCH", "decode_patch", "patch"]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


async def patch(call: Call) -> Response:
    """Change an object as the patch says; server-side apply may also create it."""
    form = presentation.negotiate(call.request)
    media = call.request.header("content-type").partition(";")[0].strip()
    options = call.write_options("PatchOptions")
    data = await call.request.read_body()
    weigh(len(data))
    if media == APPLY_PATCH:
        return await _apply(call, form, data, options)
    accepted: tuple[str, ...] = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    if not call.resource.is_custom:
        accepted = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
    if media not in accepted:
        raise errors.unsupported_media_type(accepted)
    changes, twice = await call.core.offload.run(_read_patch, data, media)
    change = _change(call, media, changes, twice)
    result = await update_object(
        call.core,
        call.resource,
        namespace=call.info.namespace,
        name=call.info.name,
        mutation=change,
        options=options,
        subresource=call.info.subresource,
    )
    return await presentation.outcome(call, form, result)


def _change(call: Call, media: str, changes: Any, problems: list[str]) -> Callable[[Json], Awaitable[Json]]:
    gvk = GroupVersionKind(call.resource.group, call.resource.version, call.resource.kind)
    earlier = list(call.warnings)

    def changed(current: Json) -> Json:
        # The patch is copied, so that a retry starts from what the client sent.
        brought = copy_json(changes)
        if media == JSON_PATCH:
            patched = apply_json_patch(current, brought)
        elif media == MERGE_PATCH:
            patched = apply_merge_patch(current, brought)
        else:
            patched = apply_strategic_merge_patch(call.resource.schema(), current, brought)
        if not isinstance(patched, dict):
            raise errors.BadRequest("the patch leaves no object")
        result: Json = patched
        if media == STRATEGIC_PATCH:
            result["apiVersion"], result["kind"] = gvk.api_version, gvk.kind  # a patch cannot change the kind
        call.warnings[:] = earlier  # without the warnings of an attempt that failed with a conflict
        try:
            check_kind(result, gvk)
            check_fields(call, gvk, call.resource.schema(), result, list(problems), call.resource.custom, current)
        except errors.BadRequest as error:
            # The patch is well-formed, but its result is invalid.
            problem = FieldError.invalid(FieldPath("patch"), changes, str(error).partition(": ")[2] or str(error))
            raise errors.invalid(GroupKind("", ""), "", [problem]) from error
        return result

    async def change(current: Json) -> Json:
        return await call.core.offload.run(changed, current)

    return change


def _read_patch(data: bytes, media: str) -> tuple[Any, list[str]]:
    changes, data = _decode_patch(data)
    prefix = "json patch " if media == JSON_PATCH else ""
    return changes, [f'{prefix}duplicate field "{path}"' for path in duplicate_fields(data, changes)]


def decode_patch(data: bytes) -> Any:
    """Return a patch in JSON, of bounded depth."""
    return _decode_patch(data)[0]


def _decode_patch(data: bytes) -> tuple[Any, bytes]:
    try:
        ensure_few_values(data)
        value, data = decode_json_text(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise errors.BadRequest(f"error decoding patch: {error}") from error
    ensure_depth(value)
    return value, data


def _read_applied(call: Call, data: bytes) -> Json:
    """The configuration to apply. The schema finds unknown fields; duplicate fields are found here."""
    body = decode_yaml(data, call.resource.kind)
    mode = call.request.query.get("fieldValidation") or "Warn"
    if body.problems and mode == "Strict":
        problem = ", ".join(body.problems)
        raise errors.BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {problem}")
    if mode == "Warn":
        call.warnings += warnings_of(list(body.problems))
    return body.value


async def _apply(call: Call, form: presentation.ResponseFormat, data: bytes, options: WriteOptions) -> Response:
    """Server-side apply: the body has the fields that its manager wants to own, and their values."""
    query = call.request.query
    resource = call.resource
    manager = query.get("fieldManager")
    gvk = GroupVersionKind(resource.group, resource.version, resource.kind)
    applied = await call.core.offload.run(_read_applied, call, data)
    if not applied.get("apiVersion") or not applied.get("kind"):
        group, _, version = str(applied.get("apiVersion") or "").rpartition("/")
        raise errors.BadRequest(f"invalid object type: {group}/{version}, Kind={applied.get('kind') or ''}")
    check_kind(applied, gvk)
    metadata = applied.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise errors.BadRequest("metadata must be an object")
    if metadata.get("managedFields"):
        raise errors.BadRequest("metadata.managedFields must be nil")
    named = bool(metadata.get("name"))
    if metadata.setdefault("name", call.info.name) != call.info.name:
        raise errors.BadRequest(
            f"name in URL does not match name in the body: {call.info.name} is not {metadata['name']}"
        )
    force = query.flag("force")
    exists = call.core.store.newest(resource.table, resource.key(call.info.namespace, call.info.name)) is not None
    if not exists:
        if call.info.subresource:
            raise errors.not_found(resource.group_resource, call.info.name)
        if not named:
            raise errors.BadRequest(
                f"the name of the object ({call.info.name} based on URL) was undeterminable: name must be provided"
            )
        if metadata.get("uid") or metadata.get("resourceVersion"):
            problem = "uid mismatch: the provided object does not exist"
            raise errors.conflict(resource.group_resource, call.info.name, problem)
        copied = await call.core.offload.run(copy_json, applied)
        obj = await call.core.offload.run(field_ownership.apply_new, call.core, resource, copied, manager)
        made = await create_absent(call, form, obj, options, tracked=True)
        if made is not None:
            return made

    async def change(current: Json) -> Json:
        # Every attempt starts from what the client sent, because defaults are set in place.
        return await call.core.offload.run(
            lambda: field_ownership.apply_existing(
                call.core,
                resource,
                current,
                copy_json(applied),
                manager,
                force=force,
                subresource=call.info.subresource,
            )
        )

    result = await update_object(
        call.core,
        resource,
        namespace=call.info.namespace,
        name=call.info.name,
        mutation=change,
        options=options,
        subresource=call.info.subresource,
        tracked=True,
    )
    return await presentation.outcome(call, form, result)
