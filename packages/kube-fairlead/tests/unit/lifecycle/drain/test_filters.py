"""The filters against kubectl's own rules, over every combination of pod and flags."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools

import pytest

from kube_fairlead.api.core_v1 import Pod, PodPhase
from kube_fairlead.lifecycle.drain import filters
from kube_fairlead.lifecycle.drain.filters import DaemonSetLookup, PodDelete, PodDeleteAction
from kube_fairlead.lifecycle.drain.options import DrainOptions
from tests.unit.lifecycle.drain.making import NOW, pod

MISSING = DaemonSetLookup('daemonsets.apps "ds" not found', missing=True)
FORBIDDEN = DaemonSetLookup("daemonsets.apps is forbidden")


@dataclasses.dataclass(frozen=True)
class Status:
    """kubectl's PodDeleteStatus."""

    delete: bool
    reason: str = "Okay"
    message: str = ""


def kubectl(item: Pod, options: DrainOptions, lookup: DaemonSetLookup) -> Status:
    """What kubectl 1.36 does, filter by filter: each answers, the first that does not delete ends the row."""
    status = Status(True)
    for each in (skip_deleted, daemon_set, mirror, local_storage, unreplicated):
        status = each(item, options, lookup)
        if not status.delete:
            break
    return status


def skip_deleted(item: Pod, options: DrainOptions, lookup: DaemonSetLookup) -> Status:
    deleted = item.metadata.deletion_timestamp
    seconds = options.skip_wait_for_delete_timeout
    if seconds > 0 and deleted is not None and int((NOW - deleted).total_seconds()) > seconds:
        return Status(False, "Skip")
    return Status(True)


def daemon_set(item: Pod, options: DrainOptions, lookup: DaemonSetLookup) -> Status:
    owners = [owner for owner in item.metadata.owner_references if owner.controller]
    if not owners or owners[0].kind != "DaemonSet" or owners[0].api_version != "apps/v1":
        return Status(True)
    if item.status.phase in {"Succeeded", "Failed"}:
        return Status(True)
    if lookup.error:
        if lookup.missing and options.force:
            return Status(True, "Warning", lookup.error)
        return Status(False, "Error", lookup.error)
    if not options.ignore_daemonsets:
        return Status(False, "Error", "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
    return Status(False, "Warning", "ignoring DaemonSet-managed Pods")


def mirror(item: Pod, options: DrainOptions, lookup: DaemonSetLookup) -> Status:
    return Status(False, "Skip") if "kubernetes.io/config.mirror" in item.metadata.annotations else Status(True)


def local_storage(item: Pod, options: DrainOptions, lookup: DaemonSetLookup) -> Status:
    if not any(volume.empty_dir for volume in item.spec.volumes) or item.status.phase in {"Succeeded", "Failed"}:
        return Status(True)
    if not options.delete_emptydir_data:
        return Status(False, "Error", "Pods with local storage (use --delete-emptydir-data to override)")
    return Status(True, "Warning", "deleting Pods with local storage")


def unreplicated(item: Pod, options: DrainOptions, lookup: DaemonSetLookup) -> Status:
    if item.status.phase in {"Succeeded", "Failed"}:
        return Status(True)
    if any(owner.controller for owner in item.metadata.owner_references):
        return Status(True)
    if options.force:
        return Status(True, "Warning", "deleting Pods that declare no controller")
    return Status(False, "Error", "Pods that declare no controller (use --force to override)")


@pytest.mark.parametrize("controller", ["none", "replicaset", "daemonset", "old-daemonset", "owner-only"])
@pytest.mark.parametrize("lookup", [filters.PRESENT, MISSING, FORBIDDEN], ids=["there", "missing", "forbidden"])
def test_every_combination_is_as_kubectl_has_it(controller: str, lookup: DaemonSetLookup) -> None:
    booleans = (False, True)
    phases = (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)
    deletions = (None, NOW + dt.timedelta(seconds=9), NOW - dt.timedelta(seconds=10), NOW - dt.timedelta(seconds=11))
    pods = [
        pod(controller=controller, emptydir=emptydir, mirror=mirrored, phase=phase, deleted=deleted)
        for emptydir, mirrored, phase, deleted in itertools.product(booleans, booleans, phases, deletions)
    ]
    for force, ignore, emptydir_data, skip in itertools.product(booleans, booleans, booleans, (-1, 0, 10)):
        options = DrainOptions(
            force=force,
            ignore_daemonsets=ignore,
            delete_emptydir_data=emptydir_data,
            skip_wait_for_delete_timeout=skip,
        )
        for item in pods:
            status = filters.delete_status(item, options, NOW, lookup)
            theirs = kubectl(item, options, lookup)
            expected = (
                PodDeleteAction.DELETE
                if theirs.delete
                else PodDeleteAction.REFUSE
                if theirs.reason == "Error"
                else PodDeleteAction.SKIP
            )
            assert status.action is expected
            assert status.error == (theirs.message if theirs.reason == "Error" else "")
            # kubectl's warning is among ours; ours are all there are.
            if theirs.reason == "Warning":
                assert theirs.message in status.warnings


def test_errors_have_kubectls_messages() -> None:
    pods = [pod("a", controller="none"), pod("b", controller="none"), pod("c", emptydir=True), pod("d")]
    pod_deletes = [PodDelete(item, filters.delete_status(item, DrainOptions(), NOW)) for item in pods]
    assert filters.errors(pod_deletes) == (
        "cannot delete Pods that declare no controller (use --force to override): shop/a, shop/b; "
        "cannot delete Pods with local storage (use --delete-emptydir-data to override): shop/c"
    )


def test_no_warning_is_lost() -> None:
    item = pod("a", controller="none", emptydir=True)
    options = DrainOptions(force=True, delete_emptydir_data=True)
    pod_deletes = [PodDelete(item, filters.delete_status(item, options, NOW))]
    assert filters.warnings(pod_deletes) == (
        "deleting Pods with local storage: shop/a; deleting Pods that declare no controller: shop/a"
    )
