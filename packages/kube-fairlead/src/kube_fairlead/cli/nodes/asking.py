"""Asking for a transition of one node: attach to the event that is under way, or create one."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventSpec, LifecycleTransition
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import NODE_DRAIN, NODE_UNCORDON
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import lifecyclegroup
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle import claiming, options
from kube_fairlead.lifecycle.drain import options as drain_options

__all__ = ["AskError", "Asked", "ask", "check_transition", "chosen_nodes"]

# A name may have 253 characters; the rest is for what goes before and after.
_NODE_NAME_ROOM = 200
_TRIES = 5


class AskError(Exception):
    """Raised when a transition cannot even be asked for. Says why and what would help."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The event that stands for the request."""

    event: LifecycleEvent
    is_new: bool
    differs: str = ""  # how the options of an event that was there already differ from those asked for now


async def chosen_nodes(client: Client, names: tuple[str, ...], selector: str, *, chunk_size: int = 500) -> list[Node]:
    """The nodes that are meant, in the order named, or of their names.

    Raises:
        NotFound: there is no node of a name.
    """
    if names:
        return [await client.of(Node).get(name) for name in dict.fromkeys(names)]
    page = await client.of(Node).list_all(label_selector=selector, limit=chunk_size)
    return sorted(page.items, key=lambda node: node.name)


async def check_transition(client: Client, name: str) -> LifecycleTransition:
    """Make sure that the transition exists, before anything is asked for.

    Raises:
        AskError: it does not, or the cluster does not know such things at all.
    """
    try:
        return await client.of(LifecycleTransition).get(name)
    except api_errors.NotFound as error:
        if (error.details or {}).get("name"):
            raise AskError(f"there is no LifecycleTransition {name}: {await _what_there_is(client, name)}") from error
        wanted = client.of(LifecycleTransition).resource.gvr.group
        served = await lifecyclegroup.served_groups(client)
        raise AskError(lifecyclegroup.explain_absence(wanted, served)) from error


async def _what_there_is(client: Client, wanted: str) -> str:
    published = "drivers publish them when they register with the agent of a node"
    others = [transition.name for transition in (await client.of(LifecycleTransition).list_all()).items]
    if others:
        return f"{published}; these are there: {', '.join(sorted(others))}"
    if wanted in {NODE_DRAIN.name, NODE_UNCORDON.name}:
        return f"{published}, so no drain driver runs anywhere yet (fairlead agent, fairlead driver drain)"
    return f"{published}, and none has yet"


def _difference(frozen: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """How the options of an event differ from those wanted; what neither says is no difference."""
    unsaid = drain_options.spell(drain_options.KUBECTL)
    parts = [
        f"{name}={frozen[name]} instead of {value}" if name in frozen else f"{name} is left to the driver, not {value}"
        for name, value in wanted.items()
        if frozen.get(name, unsaid.get(name)) != value
    ]
    return ", ".join(parts)


async def ask(client: Client, transition: LifecycleTransition, node: str, wanted: Mapping[str, str]) -> Asked:
    """The unfinished event of this transition and node if there is one, else a new one with these options."""
    suffix = RandomIds(client.randomness).name_suffix()
    name = f"{transition.name}-{node[:_NODE_NAME_ROOM].rstrip('.-')}-{suffix}"
    for _ in range(_TRIES - 1):
        # The server may go away before it answers. Whether it has heard the request is seen when it is back, which the
        # list that comes first waits for; a second event of the same name cannot be made.
        with contextlib.suppress(client_errors.ConnectionBroken):
            return await _ask(client, transition, node, wanted, name)
    return await _ask(client, transition, node, wanted, name)


async def _ask(
    client: Client, transition: LifecycleTransition, node: str, wanted: Mapping[str, str], name: str
) -> Asked:
    events = client.of(LifecycleEvent)
    page = await events.list_all(field_selector=f"spec.bindingNode={node}")
    running = [
        event
        for event in sorted(page.items, key=claiming.order)
        if event.spec.transition_name == transition.name and not event.finished and not event.deleting
    ]
    prefix = options.annotation_prefix(transition.spec.driver)
    if running:
        event = running[0]
        if event.name == name:
            return Asked(event, is_new=True)
        frozen = event.status.options or options.options_for(transition.spec.driver, event.metadata.annotations)
        return Asked(event, is_new=False, differs=_difference(frozen, wanted))
    made = LifecycleEvent(
        metadata=ObjectMeta(
            name=name,
            annotations={f"{prefix}{name}": value for name, value in wanted.items()},
        ),
        spec=LifecycleEventSpec(transition_name=transition.name, binding_node=node),
    )
    try:
        return Asked(await events.create(made), is_new=True)
    except api_errors.AlreadyExists:
        return Asked(await events.get(name), is_new=True)  # it was heard the first time, and has ended already
