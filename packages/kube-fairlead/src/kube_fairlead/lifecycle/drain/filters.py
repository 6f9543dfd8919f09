"""Which pods a drain deletes: kubectl drain's filters, in its order, with its messages (invariant 6).

    filter          pod                                     result
    too long gone   deleted longer than the limit ago       skip (the drain does not wait for it)
    DaemonSet       finished                                next filter
                    its DaemonSet is missing                delete with --force, else refuse
                    otherwise                               skip with --ignore-daemonsets, else refuse
    mirror          annotated by the kubelet                skip
    local storage   has an emptyDir, not finished           delete with --delete-emptydir-data, else refuse
    unmanaged       no controller, not finished             delete with --force, else refuse
    (none of these)                                         delete

If one pod is refused, the drain evicts none. All warnings are kept; kubectl shows only the last filter's.

Upstream: k8s.io/kubectl@v0.36.4/pkg/drain/filters.go
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Iterable
from typing import Final

from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = [
    "MIRROR_ANNOTATION",
    "PRESENT",
    "DaemonSetLookup",
    "PodDelete",
    "PodDeleteAction",
    "PodDeleteStatus",
    "daemonset_of",
    "delete_status",
    "errors",
    "grouped",
    "warnings",
]

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"

_DAEMONSET_FATAL: Final = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
_DAEMONSET_WARNING: Final = "ignoring DaemonSet-managed Pods"
_LOCAL_STORAGE_FATAL: Final = "Pods with local storage (use --delete-emptydir-data to override)"
_LOCAL_STORAGE_WARNING: Final = "deleting Pods with local storage"
_UNMANAGED_FATAL: Final = "Pods that declare no controller (use --force to override)"
_UNMANAGED_WARNING: Final = "deleting Pods that declare no controller"


class PodDeleteAction(enum.Enum):
    """What a drain does with a pod."""

    DELETE = "delete"
    SKIP = "skip"
    REFUSE = "refuse"  # the drain may neither delete nor skip it


@dataclasses.dataclass(frozen=True, slots=True)
class PodDeleteStatus:
    """The result of the filters for a pod: the action, and the error or the warnings."""

    action: PodDeleteAction
    error: str = ""
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class PodDelete:
    """A pod and the result of the filters."""

    pod: Pod
    status: PodDeleteStatus


@dataclasses.dataclass(frozen=True, slots=True)
class DaemonSetLookup:
    """The result of reading a pod's DaemonSet."""

    error: str = ""  # why it could not be read
    missing: bool = False  # because it does not exist


PRESENT: Final = DaemonSetLookup()


def daemonset_of(pod: Pod) -> str:
    """Return the name of the DaemonSet that the filters need for this pod; empty when they need none."""
    owner = pod.metadata.controller
    if owner is None or (owner.api_version, owner.kind) != ("apps/v1", "DaemonSet") or pod.finished:
        return ""
    return owner.name


def delete_status(
    pod: Pod, options: DrainOptions, now: dt.datetime, daemonset: DaemonSetLookup = PRESENT
) -> PodDeleteStatus:
    """Apply the filters to a pod. `daemonset` counts only if `daemonset_of` returns a name."""
    warned: list[str] = []
    if _too_long_gone(pod, options, now):
        return PodDeleteStatus(PodDeleteAction.SKIP)
    if daemonset_of(pod):
        if not (daemonset.missing and options.force):
            return _under_daemonset(options, daemonset)
        warned.append(daemonset.error)
    if MIRROR_ANNOTATION in pod.metadata.annotations:
        return PodDeleteStatus(PodDeleteAction.SKIP)
    if _has_emptydir(pod) and not pod.finished:
        if not options.delete_emptydir_data:
            return PodDeleteStatus(PodDeleteAction.REFUSE, _LOCAL_STORAGE_FATAL)
        warned.append(_LOCAL_STORAGE_WARNING)
    if pod.metadata.controller is None and not pod.finished:
        if not options.force:
            return PodDeleteStatus(PodDeleteAction.REFUSE, _UNMANAGED_FATAL)
        warned.append(_UNMANAGED_WARNING)
    return PodDeleteStatus(PodDeleteAction.DELETE, warnings=tuple(warned))


def errors(pod_deletes: Iterable[PodDelete]) -> str:
    """Return kubectl's error for the pods that make the drain fail; empty when there are none."""
    refused = ((one.status.error, one.pod) for one in pod_deletes if one.status.action is PodDeleteAction.REFUSE)
    return "; ".join(f"cannot delete {text}" for text in grouped(refused))


def warnings(pod_deletes: Iterable[PodDelete]) -> str:
    """Return the warnings about the pods that are deleted or skipped."""
    return "; ".join(grouped((warning, one.pod) for one in pod_deletes for warning in one.status.warnings))


def grouped(messages: Iterable[tuple[str, Pod]]) -> list[str]:
    """Return `<message>: <pod>, <pod>` for each different message, in the order of first occurrence."""
    groups: dict[str, list[str]] = {}
    for text, pod in messages:
        groups.setdefault(text, []).append(pod.key)
    return [f"{text}: {', '.join(keys)}" for text, keys in groups.items()]


def _under_daemonset(options: DrainOptions, daemonset: DaemonSetLookup) -> PodDeleteStatus:
    if daemonset.error:
        return PodDeleteStatus(PodDeleteAction.REFUSE, daemonset.error)
    if not options.ignore_daemonsets:
        return PodDeleteStatus(PodDeleteAction.REFUSE, _DAEMONSET_FATAL)
    return PodDeleteStatus(PodDeleteAction.SKIP, warnings=(_DAEMONSET_WARNING,))


def _too_long_gone(pod: Pod, options: DrainOptions, now: dt.datetime) -> bool:
    limit, deadline = options.skip_wait_for_delete_timeout, pod.metadata.deletion_timestamp
    return limit > 0 and deadline is not None and int((now - deadline).total_seconds()) > limit


def _has_emptydir(pod: Pod) -> bool:
    return any(volume.empty_dir is not None for volume in pod.spec.volumes)
