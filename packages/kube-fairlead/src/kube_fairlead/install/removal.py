"""Removal of an installation, in an order that leaves no object stuck.

A claimed event has a finalizer that its claimant removes. If the agents are deleted first, their events cannot be
deleted, and neither can the CustomResourceDefinition of the events. So the events are deleted first, while their
claimants still run and finish them. Events without a live claimant are failed here. The kinds are deleted next, and
the workloads and accounts last.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent
from kube_fairlead.api.reserved import FINALIZER_CLAIMED, NAMESPACE_NODE_LEASE
from kube_fairlead.api.scheme import Scheme
from kube_fairlead.client import lifecyclegroup
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.objects import key_of
from kube_fairlead.install import bundle
from kube_fairlead.install.installation import Installation
from kube_fairlead.lifecycle.node_overview import overview

__all__ = [
    "EventFailed",
    "KindsAbsent",
    "Leftovers",
    "ObjectDeleted",
    "ObjectKept",
    "RemovalReport",
    "RemovalStep",
    "remove",
    "served_installation",
]


_PLURALS: Final = {
    "Namespace": "namespaces",
    "CustomResourceDefinition": "customresourcedefinitions",
    "ConfigMap": "configmaps",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "Service": "services",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "DaemonSet": "daemonsets",
    "Deployment": "deployments",
    "PodDisruptionBudget": "poddisruptionbudgets",
}
_MESSAGE: Final = "Fairlead was uninstalled"
_LOOK_SECONDS: Final = 2.0
_LATE_SECONDS: Final = 30.0  # after the patience has ended: how long users may keep creating events


class Leftovers(Exception):
    """Raised when events remain: they have finalizers of other programs, or users keep creating new ones."""


@dataclasses.dataclass(frozen=True, slots=True)
class KindsAbsent:
    """The API server does not serve LifecycleEvents, so there are none to finish."""


@dataclasses.dataclass(frozen=True, slots=True)
class EventFailed:
    """An event without a live claimant, or one that did not end in time, was set to Failed and released."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectDeleted:
    """An object of the installation was deleted."""

    kind: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectKept:
    """An anchor of the fences was kept: without it, fences that are installed later may not see their Lease."""

    kind: str
    name: str


RemovalStep = KindsAbsent | EventFailed | ObjectDeleted | ObjectKept
RemovalReport = Callable[[RemovalStep], None]


async def served_installation(client: Client, installation: Installation) -> Installation:
    """The installation with the group of the lifecycle kinds that the server serves, if it serves one.

    Raises:
        GroupUnknown: the server serves several.
    """
    served = await lifecyclegroup.served_groups(client)
    if len(served) > 1:
        raise lifecyclegroup.GroupUnknown(lifecyclegroup.explain_choice(served))
    return dataclasses.replace(installation, lifecycle_group=served[0]) if served else installation


async def remove(client: Client, installation: Installation, *, patience_seconds: float, report: RemovalReport) -> None:
    """Delete the objects of an installation, in an order that leaves none stuck. Anchors of fences are kept.

    Args:
        client: one with the rights of an administrator.
        installation: as it was installed.
        patience_seconds: how long claimants may take to finish their events.
        report: called with each step.

    Raises:
        Leftovers: some events have finalizers of other programs, or users keep creating new ones. The kinds and the
            objects that were not yet deleted remain.
    """
    client = client.with_scheme(Scheme(installation.lifecycle_group))
    if installation.lifecycle:
        try:
            await _end_events(client, patience_seconds, report)
        except api_errors.NotFound:
            report(KindsAbsent())
    kept = bundle.anchors(installation)
    listed = [one for one in bundle.manifests(installation) if one not in kept]
    definitions = [one for one in listed if one["kind"] == "CustomResourceDefinition"]
    namespaces = [one for one in listed if one["kind"] == "Namespace"]
    others = [one for one in reversed(listed) if one not in definitions and one not in namespaces]
    for manifests in (definitions, others, namespaces):
        for manifest in manifests:
            if await _delete(client, manifest):
                report(ObjectDeleted(manifest["kind"], manifest["metadata"]["name"]))
        await _wait_gone(client, manifests)
    for manifest in kept:
        report(ObjectKept(manifest["kind"], manifest["metadata"]["name"]))


async def _end_events(client: Client, patience_seconds: float, report: RemovalReport) -> None:
    events = client.of(LifecycleEvent)
    await events.list_all()  # raises NotFound where the kinds are not served; a watch would wait for them
    changed = asyncio.Event()
    informer = Informer(events)
    informer.add_handler(
        Handler(
            on_add=lambda _event: changed.set(),
            on_update=lambda _old, _new: changed.set(),
            on_delete=lambda _event: changed.set(),
        )
    )
    limit = client.clock.monotonic() + patience_seconds
    async with informer.running():
        await informer.wait_synced()
        while left := list(informer.store):
            changed.clear()
            late_seconds = client.clock.monotonic() - limit
            for event in left:
                await _end(client, event, late=late_seconds >= 0, report=report)
            foreign = [event.name for event in left if set(event.metadata.finalizers) - {FINALIZER_CLAIMED}]
            if late_seconds >= 0 and foreign:
                raise Leftovers(f"LifecycleEvents have finalizers of other programs: {', '.join(sorted(foreign))}")
            if late_seconds >= _LATE_SECONDS:
                raise Leftovers(
                    f"LifecycleEvents are still being created: {', '.join(sorted(event.name for event in left))}"
                )
            with contextlib.suppress(TimeoutError):
                async with client.clock.timeout(_LOOK_SECONDS):
                    await changed.wait()


async def _end(client: Client, event: LifecycleEvent, *, late: bool, report: RemovalReport) -> None:
    """Take an event one step towards its end. Users may still create events meanwhile."""
    if event.metadata.deletion_timestamp is None:
        with contextlib.suppress(api_errors.NotFound, api_errors.Conflict):
            await client.of(LifecycleEvent).delete(event.name, uid=event.uid)
    if FINALIZER_CLAIMED in event.metadata.finalizers and (late or not await _is_held(client, event)):
        report(EventFailed(event.name))
        await _release(client, event)


async def _is_held(client: Client, event: LifecycleEvent) -> bool:
    """Whether the event's node has a live claimant."""
    node = event.spec.binding_node
    try:
        lease = await client.of(Lease).get(node, namespace=NAMESPACE_NODE_LEASE)
    except api_errors.NotFound:
        return False
    claimant = overview(node, None, (), transitions={}, lease=lease, now=client.clock.now()).claimant
    return claimant is not None and claimant.is_alive


async def _release(client: Client, event: LifecycleEvent) -> None:
    """Set an event to Failed, if it has not ended, and remove the claimant's finalizer."""
    events = client.of(LifecycleEvent)
    with contextlib.suppress(api_errors.NotFound, api_errors.Conflict):
        current = await events.get(event.name)
        if not current.finished:
            status = wire.replace(
                current.status,
                claim_status=ClaimStatus.FAILED.value,
                message=_MESSAGE,
                completion_time=client.clock.now(),
            )
            current = await events.update_status(wire.replace(current, status=status))
        kept = tuple(name for name in current.metadata.finalizers if name != FINALIZER_CLAIMED)
        await events.update(wire.replace_metadata(current, finalizers=kept))


async def _delete(client: Client, manifest: Json) -> bool:
    """Delete the object of a manifest; whether it existed."""
    key = key_of(manifest)
    try:
        await client.of(_resource(manifest)).delete(
            key.name, namespace=key.namespace or None, propagation_policy="Background"
        )
    except api_errors.NotFound:
        return False
    return True


async def _wait_gone(client: Client, manifests: Sequence[Json]) -> None:
    for manifest in manifests:
        key = key_of(manifest)
        while True:
            try:
                await client.of(_resource(manifest)).get(key.name, namespace=key.namespace or None)
            except api_errors.NotFound:
                break
            await client.clock.sleep(0.2)


def _resource(manifest: Json) -> GroupVersionResource:
    group, _, version = manifest["apiVersion"].rpartition("/")
    return GroupVersionResource(group, version, _PLURALS[manifest["kind"]])
