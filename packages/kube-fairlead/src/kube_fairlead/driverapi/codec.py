"""Converts plain data to protobuf messages and back. No other module uses the protobuf messages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import NodeSelector
from kube_fairlead.driverapi import contracts
from kube_fairlead.driverapi.errors import DriverMisbehaved
from kube_fairlead.driverapi.messages import OfferedTransition, PluginInfo, PodReport, Progress, Reached, Work

__all__ = [
    "decode_info",
    "decode_progress",
    "decode_reached",
    "decode_transitions",
    "decode_work",
    "encode_info",
    "encode_progress",
    "encode_reached",
    "encode_transitions",
    "encode_work",
]

_PACKAGE: Final = contracts.DRIVER_SERVICE.rpartition(".")[0]
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NANOSECONDS: Final = 1000
# The limit of counts that a driver may send. int64 allows more, but JSON numbers are exact up to here only.
_COUNT_MAX: Final = 1 << 53


def encode_info(info: PluginInfo) -> Any:
    """Encode a PluginInfo."""
    return contracts.message("pluginregistration.PluginInfo")(
        type=info.type, name=info.name, endpoint=info.endpoint, supported_versions=list(info.supported_versions)
    )


def decode_info(message: Any) -> PluginInfo:
    """Decode a PluginInfo."""
    return PluginInfo(
        type=message.type,
        name=message.name,
        endpoint=message.endpoint,
        supported_versions=tuple(message.supported_versions),
    )


def encode_transitions(transitions: Iterable[OfferedTransition]) -> Any:
    """Encode a GetTransitionsResponse."""
    answer = contracts.message(f"{_PACKAGE}.GetTransitionsResponse")()
    for offered in transitions:
        message = answer.transitions.add(name=offered.name, start=offered.start, end=offered.end, sla=offered.sla)
        if offered.node_selector is not None:
            _encode_selector(message.node_selector, offered.node_selector)
        elif offered.node_name:
            message.node_name = offered.node_name
        else:
            message.all_nodes = True
    return answer


def decode_transitions(answer: Any) -> list[OfferedTransition]:
    """Decode a GetTransitionsResponse."""
    return [_decode_transition(message) for message in answer.transitions]


def _decode_transition(message: Any) -> OfferedTransition:
    chosen = message.WhichOneof("nodes")
    if chosen == "all_nodes" and not message.all_nodes:
        raise DriverMisbehaved(f"transition {message.name!r} has all_nodes: false, which selects no node")
    if chosen == "node_name" and not message.node_name:
        raise DriverMisbehaved(f"transition {message.name!r} has an empty node_name")
    return OfferedTransition(
        name=message.name,
        start=message.start,
        end=message.end,
        sla=message.sla,
        node_name=message.node_name if chosen == "node_name" else "",
        node_selector=_decode_selector(message.node_selector) if chosen == "node_selector" else None,
    )


def _encode_selector(message: Any, selector: NodeSelector) -> None:
    for term in selector.node_selector_terms:
        term_message = message.node_selector_terms.add()
        for requirements, target in (
            (term.match_expressions, term_message.match_expressions),
            (term.match_fields, term_message.match_fields),
        ):
            for one in requirements:
                target.add(key=one.key, operator=one.operator, values=list(one.values))


def _decode_selector(message: Any) -> NodeSelector:
    def requirements(messages: Sequence[Any]) -> list[dict[str, Any]]:
        return [{"key": one.key, "operator": one.operator, "values": list(one.values)} for one in messages]

    terms = [
        {
            "matchExpressions": requirements(term.match_expressions),
            "matchFields": requirements(term.match_fields),
        }
        for term in message.node_selector_terms
    ]
    return wire.from_dict(NodeSelector, {"nodeSelectorTerms": terms})


def encode_work(work: Work) -> Any:
    """Encode a Work."""
    message = contracts.message(f"{_PACKAGE}.Work")(
        event_uid=work.event_uid,
        event_name=work.event_name,
        node_name=work.node_name,
        node_uid=work.node_uid,
        transition_name=work.transition_name,
        start=work.start,
        end=work.end,
        options=dict(work.options),
    )
    if work.deadline is not None:
        # In whole numbers: a float cannot represent the microseconds of a distant time.
        message.deadline.seconds = (work.deadline - _EPOCH) // dt.timedelta(seconds=1)
        message.deadline.nanos = work.deadline.microsecond * _NANOSECONDS
    return message


def decode_work(message: Any) -> Work:
    """Decode a Work."""
    deadline = None
    if message.HasField("deadline"):
        whole = _EPOCH + dt.timedelta(seconds=message.deadline.seconds)
        deadline = whole.replace(microsecond=message.deadline.nanos // _NANOSECONDS)
    return Work(
        event_uid=message.event_uid,
        event_name=message.event_name,
        node_name=message.node_name,
        node_uid=message.node_uid,
        transition_name=message.transition_name,
        start=message.start,
        end=message.end,
        options=dict(message.options),
        deadline=deadline,
    )


def encode_reached(reached: Reached) -> Any:
    """Encode a LifecycleTransitionResponse."""
    return contracts.message(f"{_PACKAGE}.LifecycleTransitionResponse")(
        lifecycle_condition=reached.state, node_name=reached.node_name
    )


def decode_reached(message: Any) -> Reached:
    """Decode a LifecycleTransitionResponse."""
    return Reached(state=message.lifecycle_condition, node_name=message.node_name)


def encode_progress(progress: Progress) -> Any:
    """Encode a Progress."""
    message = contracts.message(f"{_PACKAGE}.Progress")(
        done=progress.done, total=progress.total, unit=progress.unit, message=progress.message
    )
    for pod in progress.pods:
        message.pods.add(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            state=pod.state,
            attempts=pod.attempts,
            blocked_by=pod.blocked_by,
        )
    return message


def decode_progress(message: Any) -> Progress:
    """Decode a Progress."""
    if not (0 <= message.done <= _COUNT_MAX and 0 <= message.total <= _COUNT_MAX):
        raise DriverMisbehaved(
            f"progress must have counts from 0 to {_COUNT_MAX}, got {message.done} of {message.total}"
        )
    pods = tuple(_decode_pod(pod) for pod in message.pods)
    return Progress(done=message.done, total=message.total, unit=message.unit, message=message.message, pods=pods)


def _decode_pod(message: Any) -> PodReport:
    if not message.name or not message.uid:
        raise DriverMisbehaved(f"progress names a pod without a name or a uid: {message.name!r}, {message.uid!r}")
    if not 0 <= message.attempts <= _COUNT_MAX:
        raise DriverMisbehaved(
            f"progress of pod {message.name}: attempts must be from 0 to {_COUNT_MAX}, got {message.attempts}"
        )
    return PodReport(
        namespace=message.namespace,
        name=message.name,
        uid=message.uid,
        state=message.state,
        attempts=message.attempts,
        blocked_by=message.blocked_by,
    )
