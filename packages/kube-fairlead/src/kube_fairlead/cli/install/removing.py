"""Taking an installation away again without leaving anything stuck.

Agents hold claimed events by a finalizer; whoever deletes the agents first leaves events that nobody can delete, and
with them their definition. So events go first, while their claimants still run and bring them to an end; those that
nobody answers for are ended here; only then go the kinds, and last what ran.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent
from kube_fairlead.api.reserved import FINALIZER_CLAIMED, NAMESPACE_NODE_LEASE
from kube_fairlead.cli.install import bundle
from kube_fairlead.cli.install.plan import Plan
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.objects import key_of
from kube_fairlead.lifecycle.overview import overview

__all__ = ["Leftovers", "remove"]


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
_LATE_SECONDS: Final = 30.0  # how long events may keep coming when patience is at its end


class Leftovers(Exception):
    """Raised when events stay because somebody else holds them."""


async def remove(client: Client, plan: Plan, *, patience_seconds: float, say: Callable[[str], None]) -> None:
    """Remove what the plan's manifests made, in an order that leaves nothing stuck. Anchors of fences stay.

    Args:
        client: an administrator's.
        plan: as it was installed.
        patience_seconds: how long claimed events may take to end by themselves.
        say: is told each step.

    Raises:
        Leftovers: others' finalizers hold some events, or new ones keep coming; the kinds and what else is left stay.
    """
    if plan.lifecycle:
        try:
            await _end_events(client, patience_seconds, say)
        except api_errors.NotFound:
            say("there are no LifecycleEvents here")
    kept = bundle.anchors(plan)
    listed = [one for one in bundle.manifests(plan) if one not in kept]
    definitions = [one for one in listed if one["kind"] == "CustomResourceDefinition"]
    namespaces = [one for one in listed if one["kind"] == "Namespace"]
    others = [one for one in reversed(listed) if one not in definitions and one not in namespaces]
    for manifests in (definitions, others, namespaces):
        for manifest in manifests:
            if await _delete(client, manifest):
                say(f"deleted {manifest['kind']} {manifest['metadata']['name']}")
        await _wait_gone(client, manifests)
    for manifest in kept:
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        say(f"kept {name}: without it, fences that are put back later may not see their Lease")


async def _end_events(client: Client, patience_seconds: float, say: Callable[[str], None]) -> None:
    events = client.of(LifecycleEvent)
    await events.list_all()  # says NotFound where the kinds are not served; a watch would wait for them
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
                await _end(client, event, late=late_seconds >= 0, say=say)
            foreign = [event.name for event in left if set(event.metadata.finalizers) - {FINALIZER_CLAIMED}]
            if late_seconds >= 0 and foreign:
                raise Leftovers(f"LifecycleEvents are held by others' finalizers: {', '.join(sorted(foreign))}")
            if late_seconds >= _LATE_SECONDS:
                raise Leftovers(f"LifecycleEvents keep coming: {', '.join(sorted(event.name for event in left))}")
            with contextlib.suppress(TimeoutError):
                async with client.clock.timeout(_LOOK_SECONDS):
                    await changed.wait()


async def _end(client: Client, event: LifecycleEvent, *, late: bool, say: Callable[[str], None]) -> None:
    """Take an event one step towards its end. Users may go on making some all the while."""
    if event.metadata.deletion_timestamp is None:
        with contextlib.suppress(api_errors.NotFound, api_errors.Conflict):
            await client.of(LifecycleEvent).delete(event.name, uid=event.uid)
    if FINALIZER_CLAIMED in event.metadata.finalizers and (late or not await _is_held(client, event)):
        say(f"LifecycleEvent {event.name} is ended: nobody brings it to an end by itself")
        await _release(client, event)


async def _is_held(client: Client, event: LifecycleEvent) -> bool:
    """Whether somebody answers for the event's node."""
    node = event.spec.binding_node
    try:
        lease = await client.of(Lease).get(node, namespace=NAMESPACE_NODE_LEASE)
    except api_errors.NotFound:
        return False
    claimant = overview(node, None, (), transitions={}, lease=lease, now=client.clock.now()).claimant
    return claimant is not None and claimant.is_alive


async def _release(client: Client, event: LifecycleEvent) -> None:
    """Let an event go that its claimant does not let go."""
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
    """Delete what a manifest made; whether it was there."""
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
