"""The request of a transition: the node's unfinished event of that transition, or a new one."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventSpec, LifecycleTransition
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import NODE_DRAIN, NODE_UNCORDON
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import lifecyclegroup
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle import claims, driver_options
from kube_fairlead.lifecycle.drain import options as drain_options

__all__ = ["RequestFailed", "RequestedEvent", "find_transition", "request_event", "select_nodes"]

# An object's name has at most 253 characters; the transition's name and the suffix need the rest.
_NODE_NAME_ROOM = 200
_TRIES = 5


class RequestFailed(Exception):
    """Raised when a transition cannot be requested. Its text says why, and what would help."""


@dataclasses.dataclass(frozen=True, slots=True)
class RequestedEvent:
    """The event of a request."""

    event: LifecycleEvent
    is_new: bool
    differences: str = ""  # how the options of an event that existed before differ from the requested ones


async def select_nodes(
    client: Client, names: Sequence[str] = (), *, selector: str = "", chunk_size: int = 500
) -> list[Node]:
    """The nodes of these names, in this order, or those that the label selector matches, by name.

    Raises:
        NotFound: a node does not exist.
    """
    if names:
        return [await client.of(Node).get(name) for name in dict.fromkeys(names)]
    page = await client.of(Node).list_all(label_selector=selector, limit=chunk_size)
    return sorted(page.items, key=lambda node: node.name)


async def find_transition(client: Client, name: str) -> LifecycleTransition:
    """Read a transition before its events are created.

    Raises:
        RequestFailed: it does not exist, or the API server does not serve the kind.
    """
    try:
        return await client.of(LifecycleTransition).get(name)
    except api_errors.NotFound as error:
        if (error.details or {}).get("name"):
            raise RequestFailed(
                f"there is no LifecycleTransition {name}: {await _existing_transitions(client, name)}"
            ) from error
        wanted = client.of(LifecycleTransition).resource.gvr.group
        served = await lifecyclegroup.served_groups(client)
        raise RequestFailed(lifecyclegroup.explain_absence(wanted, served)) from error


async def _existing_transitions(client: Client, wanted: str) -> str:
    published = "drivers publish them when they register with a node's agent"
    others = [transition.name for transition in (await client.of(LifecycleTransition).list_all()).items]
    if others:
        return f"{published}; existing: {', '.join(sorted(others))}"
    if wanted in {NODE_DRAIN.name, NODE_UNCORDON.name}:
        return f"{published}, so no drain driver has registered yet (fairlead agent, fairlead driver drain)"
    return f"{published}, and none has registered yet"


def _differences(frozen: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """How the options of an event differ from the requested ones. An option that neither sets does not differ."""
    defaults = drain_options.spell(drain_options.KUBECTL)
    parts = [
        f"{name}={frozen[name]} instead of {value}"
        if name in frozen
        else f"{name} is the driver's default instead of {value}"
        for name, value in wanted.items()
        if frozen.get(name, defaults.get(name)) != value
    ]
    return ", ".join(parts)


async def request_event(
    client: Client, transition: LifecycleTransition, node: str, wanted: Mapping[str, str]
) -> RequestedEvent:
    """The unfinished event of this transition and node, if there is one, else a new one with these options."""
    suffix = RandomIds(client.randomness).name_suffix()
    name = f"{transition.name}-{node[:_NODE_NAME_ROOM].rstrip('.-')}-{suffix}"
    for _ in range(_TRIES - 1):
        # The connection may break before the server answers. The next attempt lists the events first, so it finds an
        # event that the server has created; a second event of the same name cannot be created.
        with contextlib.suppress(client_errors.ConnectionBroken):
            return await _request(client, transition, node, wanted, name)
    return await _request(client, transition, node, wanted, name)


async def _request(
    client: Client, transition: LifecycleTransition, node: str, wanted: Mapping[str, str], name: str
) -> RequestedEvent:
    events = client.of(LifecycleEvent)
    page = await events.list_all(field_selector=f"spec.bindingNode={node}")
    running = [
        event
        for event in sorted(page.items, key=claims.order)
        if event.spec.transition_name == transition.name and not event.finished and not event.deleting
    ]
    prefix = driver_options.annotation_prefix(transition.spec.driver)
    if running:
        event = running[0]
        if event.name == name:
            return RequestedEvent(event, is_new=True)
        frozen = event.status.options or driver_options.options_for(transition.spec.driver, event.metadata.annotations)
        return RequestedEvent(event, is_new=False, differences=_differences(frozen, wanted))
    new = LifecycleEvent(
        metadata=ObjectMeta(
            name=name,
            annotations={f"{prefix}{name}": value for name, value in wanted.items()},
        ),
        spec=LifecycleEventSpec(transition_name=transition.name, binding_node=node),
    )
    try:
        return RequestedEvent(await events.create(new), is_new=True)
    except api_errors.AlreadyExists:
        return RequestedEvent(
            await events.get(name), is_new=True
        )  # the first attempt created it, and it has ended already
