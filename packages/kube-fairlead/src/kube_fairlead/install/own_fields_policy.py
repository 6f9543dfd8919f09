"""The fields of a node, a pod or a LifecycleEvent that an account may change: those that its code writes. Pure.

RBAC restricts access to subresources, not to fields: an account that may patch a node to cordon it may also change the
labels that workloads are scheduled by, remove taints, or change the providerID. A ValidatingAdmissionPolicy compares
the object before and after, key by key, so that it also protects fields that a later Kubernetes adds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

from kube_fairlead.api.core_v1 import Taint
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.reserved import (
    ANNOTATION_CORDONED_BY,
    ANNOTATION_OFFERED_AT,
    ANNOTATION_PLATFORM,
    ANNOTATION_PUBLISHED_BY,
    ANNOTATION_WINDING_UP,
    CONDITION_DRAIN_IN_PROGRESS,
    CONDITION_DRAINED,
    CONDITION_GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS,
    CONDITION_LIFECYCLE_TRANSITION,
    CONDITION_MAINTENANCE_IN_PROGRESS,
    CONDITION_MAINTENANCE_PLANNED,
    FINALIZER_CLAIMED,
)
from kube_fairlead.install.installation import AGENT, CLAIMER, DRAIN, MANAGER, Installation
from kube_fairlead.install.own_node_policy import bound_policy
from kube_fairlead.lifecycle import autoscaler_annotations, shutdown_observation, shutdown_status

__all__ = ["OWN_FIELDS", "NodeFields", "node_fields", "own_fields_manifests"]


OWN_FIELDS = "own-fields.fairlead.dev"

_CONDITIONS = (
    CONDITION_LIFECYCLE_TRANSITION,
    CONDITION_DRAIN_IN_PROGRESS,
    CONDITION_DRAINED,
    CONDITION_MAINTENANCE_PLANNED,
    CONDITION_MAINTENANCE_IN_PROGRESS,
    CONDITION_GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS,
)
# Fields that the API server itself changes in every write, and the marks of a deletion.
_BOOKKEEPING = ("generation", "managedFields", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds")
_POD_STATUS = ("phase", "conditions", "containerStatuses", "reason", "message")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeFields:
    """The fields of a node that an account may change; it may change no others."""

    annotations: frozenset[str] = frozenset()
    cordon: bool = False
    taints: frozenset[str] = frozenset()  # as `key:effect`
    conditions: frozenset[str] = frozenset()  # by type
    not_ready: bool = False  # it may set the condition Ready to False, never to True


def node_fields(installation: Installation) -> dict[str, NodeFields]:
    """The fields of nodes that each account's code writes, by account."""
    claiming = frozenset({*autoscaler_annotations.HOLDS, autoscaler_annotations.ANNOTATION_HELD})
    conditions = frozenset(_CONDITIONS)
    draining = NodeFields(annotations=frozenset({ANNOTATION_CORDONED_BY}), cordon=True)
    agent = NodeFields(annotations=claiming | {ANNOTATION_PLATFORM}, conditions=conditions)
    if installation.shutdown:
        agent = dataclasses.replace(
            agent,
            annotations=agent.annotations | {ANNOTATION_CORDONED_BY, ANNOTATION_WINDING_UP},
            cordon=True,
            taints=frozenset({_written(shutdown_status.TAINT)}),
            not_ready=True,
        )
    fields = {AGENT: agent, DRAIN: draining}
    if installation.claimer:
        both = claiming | draining.annotations
        fields[CLAIMER] = dataclasses.replace(draining, annotations=both, conditions=conditions)
    if installation.out_of_service_taint:
        fields[MANAGER] = NodeFields(taints=frozenset({_written(shutdown_observation.TAINT_OUT_OF_SERVICE)}))
    return fields


def own_fields_manifests(installation: Installation) -> list[Json]:
    """The policy and its binding; none if it is off."""
    if installation.own_node == "off":
        return []
    fields = node_fields(installation)
    users = {name: f"system:serviceaccount:{installation.namespace}:{name}" for name in fields}
    users[MANAGER] = f"system:serviceaccount:{installation.namespace}:{MANAGER}"

    def by_user(choose: Callable[[NodeFields], object]) -> str:
        chosen = {user: choose(fields.get(name, NodeFields())) for name, user in users.items()}
        return f"{json.dumps(chosen)}[request.userInfo.username]"

    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                _updates("", ["nodes", "nodes/status", "pods", "pods/status"]),
                _updates(
                    installation.lifecycle_group, ["lifecycleevents", "lifecycleevents/status", "lifecycletransitions"]
                ),
            ]
        },
        "matchConditions": [
            {"name": "components", "expression": f"request.userInfo.username in {json.dumps(list(users.values()))}"}
        ],
        "variables": [
            _variable("kind", "request.resource.resource"),
            *_both("metadata", "metadata"),
            *_both("spec", "spec"),
            *_both("status", "status"),
            _variable("annotations", by_user(lambda one: sorted(one.annotations))),
            _variable("specs", by_user(_spec_fields)),
            _variable("taints", by_user(lambda one: sorted(one.taints))),
            _variable("conditions", by_user(lambda one: sorted(one.conditions))),
            _variable("notReady", by_user(lambda one: one.not_ready)),
        ],
        "validations": [*_of_nodes(), *_of_pods(), *_of_lifecycle_objects()],
    }
    return bound_policy(OWN_FIELDS, policy, installation)


def _written(taint: Taint) -> str:
    return f"{taint.key}:{taint.effect}"


def _spec_fields(fields: NodeFields) -> list[str]:
    return [*(["unschedulable"] if fields.cordon else []), *(["taints"] if fields.taints else [])]


def _of_nodes() -> list[Json]:
    taints = "variables.{}.?taints.orValue([]).filter(t, !(t.key + ':' + t.effect in variables.taints))"
    return [
        _judged("nodes", _kept("metadata", ["annotations"]), "'metadata of nodes but annotations stays as it is'"),
        _judged("nodes", _annotations("variables.annotations"), "'other annotations of nodes stay as they are'"),
        _judged("nodes", _kept("spec", "variables.specs"), "'other fields of a node\\'s spec stay as they are'"),
        _judged(
            "nodes",
            f"{taints.format('spec')} == {taints.format('specBefore')}",
            "'taints of others stay as they are'",
        ),
        _judged("nodes", _kept("status", ["conditions"]), "'status of nodes but conditions stays as it is'"),
        _judged("nodes", _conditions_of_nodes(), "'conditions of others stay as they are'"),
    ]


def _conditions_of_nodes() -> str:
    now, before = _list("variables.status", "conditions"), _list("variables.statusBefore", "conditions")
    is_ready = "c.type == 'Ready' && variables.notReady"
    return (
        f"{now}.all(c, c.type in variables.conditions || c in {before} || ({is_ready} && c.status == 'False'))"
        f" && {before}.all(c, c.type in variables.conditions || {now}.exists(d, d.type == c.type))"
        f" && {now}.all(c, {now}.exists_one(d, d.type == c.type))"
    )


def _of_pods() -> list[Json]:
    """A shutdown may report that a pod ends or has ended. It may not report that one runs or is ready."""
    now, before = _list("variables.status", "conditions"), _list("variables.statusBefore", "conditions")
    not_ready = "c.type in ['Ready', 'ContainersReady'] && c.status == 'False'"
    words = f"c.type == 'DisruptionTarget' ? c.status == 'True' : {not_ready}"
    conditions = (
        f"{now}.all(c, c in {before} || ({words})) && {before}.all(c, {now}.exists(d, d.type == c.type))"
        f" && {now}.all(c, {now}.exists_one(d, d.type == c.type))"
    )
    containers, were = (
        _list("variables.status", "containerStatuses"),
        _list("variables.statusBefore", "containerStatuses"),
    )
    rest = _same("dyn(c)", "dyn(o)", json.dumps(["state", "ready", "started"]))
    ended = f"has(c.state.terminated) && !c.ready && {were}.exists(o, o.name == c.name && {rest})"
    phase = "variables.status.?phase.orValue('')"
    return [
        _judged("pods", "request.?subResource.orValue('') == 'status'", "'pods are not changed but for their status'"),
        _judged("pods", _kept("metadata", []), "'metadata of pods stays as it is'"),
        _judged("pods", _kept("status", list(_POD_STATUS)), "'other fields of a pod\\'s status stay as they are'"),
        _judged(
            "pods",
            f"{phase} in ['Succeeded', 'Failed'] || {phase} == variables.statusBefore.?phase.orValue('')",
            "'a pod is said to have ended, and nothing else'",
        ),
        _judged("pods", conditions, "'conditions of pods only say that they end'"),
        _judged(
            "pods",
            f"{containers}.size() == {were}.size() && {containers}.all(c, c in {were} || ({ended}))",
            "'containers of pods are said to have ended, and nothing else'",
        ),
    ]


def _of_lifecycle_objects() -> list[Json]:
    finalizers = "variables.{}.?finalizers.orValue([]).filter(f, f != '" + FINALIZER_CLAIMED + "')"
    marks = json.dumps([ANNOTATION_OFFERED_AT, ANNOTATION_PUBLISHED_BY])
    return [
        _judged(
            "lifecycleevents",
            f"{_kept('metadata', ['finalizers'])} && "
            f"{finalizers.format('metadata')} == {finalizers.format('metadataBefore')}",
            f"'metadata of LifecycleEvents but the finalizer {FINALIZER_CLAIMED} stays as it is'",
        ),
        _judged(
            "lifecycletransitions",
            f"{_kept('metadata', ['annotations'])} && ({_annotations(marks)})",
            "'metadata of LifecycleTransitions but the marks of agents stays as it is'",
        ),
    ]


def _annotations(allowed: str) -> str:
    now, before = (f"variables.{name}.?annotations.orValue({{}})" for name in ("metadata", "metadataBefore"))
    return _same(now, before, allowed)


def _kept(part: str, free: list[str] | str) -> str:
    """Whether a part of the object is unchanged, except for these keys."""
    if not isinstance(free, str):
        free = json.dumps([*free, *(_BOOKKEEPING if part == "metadata" else ())])
    return _same(f"variables.{part}", f"variables.{part}Before", free)


def _same(now: str, before: str, free: str) -> str:
    return (
        f"{now}.all(k, k in {free} || (k in {before} && {now}[k] == {before}[k]))"
        f" && {before}.all(k, k in {free} || k in {now})"
    )


def _list(where: str, name: str) -> str:
    return f"{where}.?{name}.orValue([])"


def _both(name: str, part: str) -> list[Json]:
    # As plain maps: CEL cannot iterate over the keys of a typed object.
    return [
        _variable(name, f"dyn(object).?{part}.orValue({{}})"),
        _variable(f"{name}Before", f"dyn(oldObject).?{part}.orValue({{}})"),
    ]


def _variable(name: str, expression: str) -> Json:
    return {"name": name, "expression": expression}


def _judged(kind: str, expression: str, why: str) -> Json:
    return {
        "expression": f"variables.kind != '{kind}' || ({expression})",
        "messageExpression": f"request.userInfo.username + ': ' + {why}",
        "reason": "Forbidden",
    }


def _updates(group: str, resources: list[str]) -> Json:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": resources}
