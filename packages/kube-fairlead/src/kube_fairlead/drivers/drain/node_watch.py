"""What a drain reads: the node, its pods, the disruption budgets, and the DaemonSets of the pods."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.apps_v1 import DaemonSet
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.policy_v1 import PodDisruptionBudget
from kube_fairlead.base import logs
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.lifecycle.drain import filters
from kube_fairlead.lifecycle.drain.budgets import Budgets
from kube_fairlead.lifecycle.drain.filters import PodDelete
from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = ["DaemonSets", "NodeWatch", "delete_statuses", "list_pods"]

# Budgets are optional: a driver that may not read them sends an eviction for each pod.
_BUDGETS_SECONDS: Final = 5.0

_log = logs.get_logger(__name__)


async def list_pods(client: Client, node_name: str, options: DrainOptions, *, chunk_size: int = 500) -> list[Pod]:
    """The pods on a node that the options concern."""
    page = await client.of(Pod, keep=False).list_all(
        label_selector=options.pod_selector, field_selector=f"spec.nodeName={node_name}", limit=chunk_size
    )
    return list(page.items)


class DaemonSets:
    """Whether DaemonSets that pods name as their controllers exist. Each is looked up once."""

    def __init__(self, client: Client) -> None:
        self._api = client.of(DaemonSet, keep=False)
        self._known: dict[tuple[str, str], filters.DaemonSetLookup] = {}

    async def look_up(self, pods: Iterable[Pod]) -> None:
        """Read those that are not known yet."""
        for pod in pods:
            name = filters.daemonset_of(pod)
            if name and (pod.namespace, name) not in self._known:
                self._known[pod.namespace, name] = await self._get(pod.namespace, name)

    def of(self, pod: Pod) -> filters.DaemonSetLookup:
        """What is known about a pod's DaemonSet."""
        return self._known.get((pod.namespace, filters.daemonset_of(pod)), filters.PRESENT)

    async def _get(self, namespace: str, name: str) -> filters.DaemonSetLookup:
        try:
            await self._api.get(name, namespace=namespace)
        except api_errors.NotFound as error:
            return filters.DaemonSetLookup(str(error), missing=True)
        except api_errors.Forbidden as error:
            return filters.DaemonSetLookup(str(error))
        return filters.PRESENT


async def delete_statuses(
    pods: Iterable[Pod], options: DrainOptions, daemonsets: DaemonSets, client: Client
) -> list[PodDelete]:
    """The verdict for each pod."""
    pods = list(pods)
    await daemonsets.look_up(pods)
    now = client.clock.now()
    return [PodDelete(pod, filters.delete_status(pod, options, now, daemonsets.of(pod))) for pod in pods]


class NodeWatch:
    """One node and what matters about it, kept up to date by watches. `on_change` is called for every change."""

    def __init__(self, client: Client, node_name: str, options: DrainOptions, on_change: Callable[[], None]) -> None:
        self._clock = client.clock
        self._node_name = node_name
        self._on_change = on_change
        self._pods = Informer(
            client.of(Pod, keep=False),
            label_selector=options.pod_selector,
            field_selector=f"spec.nodeName={node_name}",
        )
        self._nodes = Informer(client.of(Node, keep=False), field_selector=f"metadata.name={node_name}")
        self._budgets = Informer(client.of(PodDisruptionBudget, keep=False))
        self._counted: Budgets | None = None

    @property
    def pods(self) -> list[Pod]:
        """The pods on the node now."""
        return list(self._pods.store)

    @property
    def node(self) -> Node | None:
        """The node, if it is there."""
        return self._nodes.store.get(self._node_name)

    @property
    def budgets(self) -> Budgets:
        """The budgets of the whole cluster, as far as they are known."""
        if self._counted is None:
            self._counted = Budgets(self._budgets.store)
        return self._counted

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch while the block lasts. The block starts after the first sync."""
        self._pods.add_handler(_on_any_change(self._on_change))
        self._nodes.add_handler(_on_any_change(self._on_change))
        self._budgets.add_handler(_on_any_change(self._budgets_changed))
        async with self._pods.running(), self._nodes.running(), self._budgets.running():
            await self._pods.wait_synced()
            await self._nodes.wait_synced()
            try:
                async with self._clock.timeout(_BUDGETS_SECONDS):
                    await self._budgets.wait_synced()
            except TimeoutError:
                _log.warning("cannot watch disruption budgets", error=str(self._budgets.last_error or "too slow"))
            yield

    def _budgets_changed(self) -> None:
        self._counted = None
        self._on_change()


def _on_any_change(call: Callable[[], None]) -> Handler[Any]:
    return Handler(on_add=lambda _new: call(), on_update=lambda _old, _new: call(), on_delete=lambda _old: call())
