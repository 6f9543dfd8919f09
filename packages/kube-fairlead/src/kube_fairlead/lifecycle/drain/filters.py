"""Which pods go: kubectl drain's filters, in its order, with its words (invariant 6).

    filter          pod                                     verdict
    too long gone   deleted longer than the limit ago       stays (nobody waits for it)
    DaemonSet       finished                                next filter
                    its DaemonSet is missing                goes with --force, else refused
                    otherwise                               stays with --ignore-daemonsets, else refused
    mirror          annotated by the kubelet                stays
    local storage   has an emptyDir, not finished           goes with --delete-emptydir-data, else refused
    unmanaged       no controller, not finished             goes with --force, else refused
    (none of these)                                         goes

One refused pod, and the drain evicts nothing. All warnings are kept; kubectl shows only the last filter's.

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
    "Fate",
    "Judged",
    "Lookup",
    "Verdict",
    "daemonset_of",
    "grouped",
    "judge",
    "refusals",
    "warnings",
]

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"

_DAEMONSET_FATAL: Final = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
_DAEMONSET_WARNING: Final = "ignoring DaemonSet-managed Pods"
_LOCAL_STORAGE_FATAL: Final = "Pods with local storage (use --delete-emptydir-data to override)"
_LOCAL_STORAGE_WARNING: Final = "deleting Pods with local storage"
_UNMANAGED_FATAL: Final = "Pods that declare no controller (use --force to override)"
_UNMANAGED_WARNING: Final = "deleting Pods that declare no controller"


class Fate(enum.Enum):
    """What becomes of a pod."""

    GOES = "goes"
    STAYS = "stays"
    REFUSED = "refused"  # the drain may not touch it, and may not leave it


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The fate of a pod; why it is refused, or what to warn of."""

    fate: Fate
    refusal: str = ""
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """A pod and its fate."""

    pod: Pod
    verdict: Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Lookup:
    """What came of looking for a pod's DaemonSet."""

    error: str = ""  # why it could not be had
    missing: bool = False  # because it does not exist


PRESENT: Final = Lookup()


def daemonset_of(pod: Pod) -> str:
    """The name of the DaemonSet that must be looked up before the pod can be judged; empty when none must."""
    owner = pod.metadata.controller
    if owner is None or (owner.api_version, owner.kind) != ("apps/v1", "DaemonSet") or pod.finished:
        return ""
    return owner.name


def judge(pod: Pod, options: DrainOptions, now: dt.datetime, daemonset: Lookup = PRESENT) -> Verdict:
    """What becomes of a pod. `daemonset` counts only if `daemonset_of` names one."""
    warned: list[str] = []
    if _too_long_gone(pod, options, now):
        return Verdict(Fate.STAYS)
    if daemonset_of(pod):
        if not (daemonset.missing and options.force):
            return _under_daemonset(options, daemonset)
        warned.append(daemonset.error)
    if MIRROR_ANNOTATION in pod.metadata.annotations:
        return Verdict(Fate.STAYS)
    if _has_emptydir(pod) and not pod.finished:
        if not options.delete_emptydir_data:
            return Verdict(Fate.REFUSED, _LOCAL_STORAGE_FATAL)
        warned.append(_LOCAL_STORAGE_WARNING)
    if pod.metadata.controller is None and not pod.finished:
        if not options.force:
            return Verdict(Fate.REFUSED, _UNMANAGED_FATAL)
        warned.append(_UNMANAGED_WARNING)
    return Verdict(Fate.GOES, warnings=tuple(warned))


def refusals(judged: Iterable[Judged]) -> str:
    """Why the drain is refused, in kubectl's words; empty when it is not."""
    refused = ((one.verdict.refusal, one.pod) for one in judged if one.verdict.fate is Fate.REFUSED)
    return "; ".join(f"cannot delete {text}" for text in grouped(refused))


def warnings(judged: Iterable[Judged]) -> str:
    """What a user should know about the pods that go or stay."""
    return "; ".join(grouped((warning, one.pod) for one in judged for warning in one.verdict.warnings))


def grouped(said: Iterable[tuple[str, Pod]]) -> list[str]:
    """`<what>: <pod>, <pod>` for every different thing that is said about pods, in the order of first mention."""
    groups: dict[str, list[str]] = {}
    for text, pod in said:
        groups.setdefault(text, []).append(pod.key)
    return [f"{text}: {', '.join(keys)}" for text, keys in groups.items()]


def _under_daemonset(options: DrainOptions, daemonset: Lookup) -> Verdict:
    if daemonset.error:
        return Verdict(Fate.REFUSED, daemonset.error)
    if not options.ignore_daemonsets:
        return Verdict(Fate.REFUSED, _DAEMONSET_FATAL)
    return Verdict(Fate.STAYS, warnings=(_DAEMONSET_WARNING,))


def _too_long_gone(pod: Pod, options: DrainOptions, now: dt.datetime) -> bool:
    limit, deadline = options.skip_wait_for_delete_timeout, pod.metadata.deletion_timestamp
    return limit > 0 and deadline is not None and int((now - deadline).total_seconds()) > limit


def _has_emptydir(pod: Pod) -> bool:
    return any(volume.empty_dir is not None for volume in pod.spec.volumes)
