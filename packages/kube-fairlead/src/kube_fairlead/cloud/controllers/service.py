"""The service controller: Services of type LoadBalancer get one of this cloud's, which leads to this cloud's nodes.

Upstream: k8s.io/cloud-provider@v0.36.4/controllers/service/controller.go
"""

from __future__ import annotations

import contextlib
import dataclasses

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import LoadBalancerStatus, Node, Service
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.workqueue import QueueShutDown, WorkQueue
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.objects import Key, key_of
from kube_fairlead.cloud.context import CloudContext
from kube_fairlead.cloud.decisions.services import (
    ServiceStep,
    balanced_nodes,
    changes_targets,
    is_looked_after_by_another,
    needs_cleanup,
    needs_update,
    same_targets,
    service_step,
    wants_load_balancer,
)
from kube_fairlead.cloud.errors import CloudError, ImplementedElsewhere, NotReadyYet, ProviderError
from kube_fairlead.cloud.graceful_stop import pause, shut_down_on, synced
from kube_fairlead.cloud.provider import LoadBalancers
from kube_fairlead.cloud.service_writer import ServiceWriter

__all__ = ["ServiceController"]

_RETRY = Backoff(initial_seconds=5.0, factor=2.0, cap_seconds=300.0, jitter=0.0)
_RESYNC_SECONDS = 30.0
_NODE_RESYNC_SECONDS = 100.0
_NODES_TO_NAME = 20
# A deletion that the cloud has accepted and not carried out yet.
_DELETION_POLL_SECONDS = 5.0
# The step for a Service whose annotation names another manager.
_NOT_OURS = frozenset({ServiceStep.LEAVE_ALONE, ServiceStep.ASK_CLOUD})

_log = logs.get_logger(__name__)


@dataclasses.dataclass(eq=False)
class _Balanced:
    """A Service that has a load balancer here, or parts of one."""

    service: Service  # as last sent to the cloud
    targets: list[Node] | None = None  # where it leads for certain; None: it is not known to be in line

    def needs_ensuring(self, service: Service) -> bool:
        return self.targets is None or needs_update(self.service, service)


class ServiceController:
    """Works through Services as they come and change, and brings all load balancers in line when nodes do.

    Everything that is done about a Service goes through the queue, where a key is never worked on twice at once: no
    two of its calls to the cloud can overtake each other.
    """

    name = "service-lb-controller"

    def __init__(self, context: CloudContext, services: Informer[Service], *, concurrent_syncs: int = 1) -> None:
        if context.provider.load_balancers is None:
            raise ProviderError(f"cloud provider {context.provider.name} does not support load balancers")
        self._balancers: LoadBalancers = context.provider.load_balancers
        self._context = context
        self._services = services
        self._workers = concurrent_syncs
        self._clock = context.client.clock
        self._recorder = context.recorder("service-controller")
        self._writer = ServiceWriter(context.client, context.identity, claims=bool(context.platforms))
        self._queue: WorkQueue[Key] = WorkQueue(self._clock, context.client.randomness, backoff=_RETRY)
        self._node_changes: WorkQueue[str] = WorkQueue(self._clock, context.client.randomness, backoff=_RETRY)
        self._known: dict[Key, _Balanced] = {}
        # The uid of a deleted Service that was released here: the watch may still show our finalizer on it.
        self._released: dict[Key, str] = {}
        # The uid of a Service that another manager holds: this cloud has no load balancer of it.
        self._elsewhere: dict[Key, str] = {}

    async def run(self) -> None:
        """Ensure, update and remove until the request to stop."""
        self._services.add_handler(Handler(on_add=self._added, on_update=self._updated, on_delete=self._deleted))
        self._context.nodes.add_handler(
            Handler(on_add=self._node_changed, on_update=self._node_updated, on_delete=self._node_changed)
        )
        self._context.confirmations.add_listener(self._node_changed)
        if not await synced(self._context.stopping, self._services, self._context.nodes):
            return
        async with (
            self._recorder.running(),
            shut_down_on(self._context.stopping, self._queue),
            shut_down_on(self._context.stopping, self._node_changes),
            tasks.TaskScope(self.name) as scope,
        ):
            for number in range(self._workers):
                scope.start(self._work(), name=f"services-{number}")
            scope.start(self._follow_nodes(), name="nodes")
            scope.start(self._resync(), name="resync")
            scope.start(self._resync_nodes(), name="resync-nodes")

    def _added(self, service: Service) -> None:
        if wants_load_balancer(service) or needs_cleanup(service):
            self._queue.add(key_of(service))

    def _updated(self, old: Service, new: Service) -> None:
        # The step changes when another manager releases it.
        if needs_update(old, new) or needs_cleanup(new) or self._step(old) is not self._step(new):
            self._queue.add(key_of(new))

    def _step(self, service: Service) -> ServiceStep:
        return service_step(service, manager=self._context.identity, platforms=self._context.platforms)

    def _deleted(self, service: Service) -> None:
        self._released.pop(key_of(service), None)
        self._elsewhere.pop(key_of(service), None)
        # Only one that lost our finalizer by force comes here with a load balancer left.
        if key_of(service) in self._known:
            self._queue.add(key_of(service))

    def _node_changed(self, node: Node) -> None:
        self._node_changes.add(node.name)

    def _node_updated(self, old: Node, new: Node) -> None:
        if changes_targets(old, new, self._context.platforms):
            self._node_changes.add(new.name)

    async def _work(self) -> None:
        with contextlib.suppress(QueueShutDown):
            while not self._context.stopping.is_set():
                async with self._queue.take() as key:
                    await self._attempt(key)

    async def _attempt(self, key: Key) -> None:
        try:
            await self.sync(key)
        except NotReadyYet as error:
            self._queue.add_after(key, error.retry_after_seconds)
        except (CloudError, api_errors.ApiError, client_errors.ClientError) as error:
            _log.warning("cannot reconcile service", service=str(key), error=str(error))
            self._queue.add_rate_limited(key)
        else:
            self._queue.forget(key)

    async def _resync(self) -> None:
        # An incomplete clean-up must not wait for a change of the Service.
        while not await pause(self._clock, _RESYNC_SECONDS, self._context.stopping):
            for service in self._services.store:
                if needs_cleanup(service):
                    self._queue.add(key_of(service))

    async def _resync_nodes(self) -> None:
        while not await pause(self._clock, _NODE_RESYNC_SECONDS, self._context.stopping):
            await self.look_at_nodes()

    async def sync(self, key: Key) -> None:
        """Bring one Service in line."""
        service = self._services.store.by_key(key)
        known = self._known.get(key)
        if known is not None and (service is None or service.uid != known.service.uid):
            await self._delete_orphan(known.service)
            known = None
        if service is None or self._released.get(key) == service.uid:
            return
        step = self._step(service)
        if step in _NOT_OURS and known is not None and _is_unwanted(service):
            if is_looked_after_by_another(service, self._context.identity):
                await self._delete_orphan(known.service)
                return
            step = ServiceStep.REMOVE  # a user removed our finalizer or our annotation
        elif step is ServiceStep.ASK_CLOUD:
            step = await self._ask(service)
        if step is ServiceStep.ENSURE and known is not None and not known.needs_ensuring(service):
            await self._retarget(service, known)
            return
        try:
            if step is ServiceStep.ENSURE:
                await self._ensure(service)
            elif step is ServiceStep.REMOVE:
                await self._remove(service)
        except (CloudError, api_errors.ApiError) as error:
            if not isinstance(error, api_errors.Conflict | NotReadyYet):
                self._warn(service, "SyncLoadBalancerFailed", f"Error syncing load balancer: {error}")
            raise

    async def _ask(self, service: Service) -> ServiceStep:
        """Whether a Service to be released, without a manager's annotation, has its load balancer in this cloud."""
        key = key_of(service)
        if self._elsewhere.get(key) == service.uid:
            return ServiceStep.LEAVE_ALONE
        if await self._exists(service):
            return ServiceStep.REMOVE
        self._elsewhere[key] = service.uid  # no manager of ours makes one without its note
        return ServiceStep.LEAVE_ALONE

    async def _exists(self, service: Service) -> bool:
        context = self._context
        try:
            status = await context.calls.call(
                LoadBalancers.get_load_balancer,
                lambda: self._balancers.get_load_balancer(context.cluster_name, service),
            )
        except ImplementedElsewhere:
            return False
        return status is not None

    async def _ensure(self, service: Service) -> None:
        context, key = self._context, key_of(service)
        await self._confirm_nodes()
        self._tell(service, "EnsuringLoadBalancer", "Ensuring load balancer")
        # Before anything exists in the cloud: the Service cannot go without it any more, and no other manager takes it.
        service = await self._writer.claim(service)
        nodes = self._nodes()
        if not nodes:
            self._warn(service, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
        known = self._known[key] = _Balanced(service)
        try:
            status = await context.calls.call(
                LoadBalancers.ensure_load_balancer,
                lambda: self._balancers.ensure_load_balancer(context.cluster_name, service, nodes),
                changes=True,
            )
        except ImplementedElsewhere:
            known.targets = nodes
            return
        self._tell(service, "EnsuredLoadBalancer", "Ensured load balancer")
        _log.info("load balancer ensured", service=str(key), load_balancer=self._name_of(service))
        await self._writer.set_status(service, status)
        known.targets = nodes
        if not same_targets(nodes, self._nodes()):
            self._queue.add(key)

    async def _remove(self, service: Service) -> None:
        self._tell(service, "DeletingLoadBalancer", "Deleting load balancer")
        # Whether or not there seems to be one: an attempt that stopped half way may have left parts of it.
        with contextlib.suppress(ImplementedElsewhere):
            await self._delete_balancer(service)
        with contextlib.suppress(api_errors.NotFound):
            service = await self._writer.set_status(service, LoadBalancerStatus())
            await self._writer.release(service)
            if service.deleting and self._services.store.by_key(key_of(service)) is not None:
                self._released[key_of(service)] = service.uid  # no finalizer can be added to it any more
        self._tell(service, "DeletedLoadBalancer", "Deleted load balancer")
        self._known.pop(key_of(service), None)

    async def _delete_orphan(self, service: Service) -> None:
        self._tell(service, "DeletingLoadBalancer", "Deleting load balancer")
        try:
            await self._delete_balancer(service)
        except NotReadyYet:
            raise
        except CloudError as error:
            self._warn(service, "DeleteLoadBalancerFailed", f"Error deleting load balancer: {error}")
            raise
        self._tell(service, "DeletedLoadBalancer", "Deleted load balancer")
        self._known.pop(key_of(service), None)

    async def _delete_balancer(self, service: Service) -> None:
        context = self._context
        await context.calls.call(
            LoadBalancers.ensure_load_balancer_deleted,
            lambda: self._balancers.ensure_load_balancer_deleted(context.cluster_name, service),
            changes=True,
        )
        # The Service is all that leads back to it: it is released when the cloud confirms, not when asked.
        if await self._exists(service):
            what = f"load balancer {self._name_of(service)} is still there"
            raise NotReadyYet(what, retry_after_seconds=_DELETION_POLL_SECONDS)
        _log.info("load balancer deleted", service=service.key, load_balancer=self._name_of(service))

    def _name_of(self, service: Service) -> str:
        return self._context.calls.load_balancer_name(self._balancers, self._context.cluster_name, service)

    async def _follow_nodes(self) -> None:
        with contextlib.suppress(QueueShutDown):
            while not self._context.stopping.is_set():
                # However many nodes changed: one look at all load balancers.
                names = [await self._node_changes.get()]
                while len(self._node_changes):
                    names.append(await self._node_changes.get())
                await self.look_at_nodes()
                for name in names:
                    self._node_changes.done(name)

    async def look_at_nodes(self) -> None:
        """Have every load balancer brought in line whose targets are not those that it should have."""
        if not self._known:
            return
        try:
            await self._confirm_nodes()
        except CloudError as error:
            # Each load balancer is retried with its own pause, and an Event on its Service gives the reason.
            _log.warning("no answer of the cloud about its nodes", error=str(error))
            for key in self._known:
                self._queue.add(key)
            return
        nodes = self._nodes()
        for key, known in self._known.items():
            # One that is not in line yet is on its way, with its own delays.
            if known.targets is not None and not same_targets(known.targets, nodes):
                self._queue.add(key)

    async def _retarget(self, service: Service, known: _Balanced) -> None:
        context, nodes = self._context, self._candidates()
        try:
            await self._confirm_nodes()
            nodes = self._nodes()
            if known.targets is not None and same_targets(known.targets, nodes):
                return
            # Until the call is known to have worked, it is not known where the load balancer leads.
            known.targets = None
            await context.calls.call(
                LoadBalancers.update_load_balancer,
                lambda: self._balancers.update_load_balancer(context.cluster_name, service, nodes),
                changes=True,
            )
        except ImplementedElsewhere:
            known.targets = nodes
            return
        except CloudError as error:
            names = [node.name for node in nodes[:_NODES_TO_NAME]]
            self._warn(
                service,
                "UpdateLoadBalancerFailed",
                f"Error updating load balancer with new hosts {names} [node names limited, total number of nodes: "
                f"{len(nodes)}], error: {error}",
            )
            raise
        known.targets = nodes
        if not same_targets(nodes, self._nodes()):
            self._queue.add(key_of(service))
        if nodes:
            self._tell(service, "UpdatedLoadBalancer", "Updated load balancer with new hosts")
        else:
            self._warn(service, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")

    def _nodes(self) -> list[Node]:
        """Where load balancers lead, as far as the cloud has said which nodes are its own."""
        return balanced_nodes(self._context.nodes.store, self._context.platforms, self._context.confirmations.has)

    async def _confirm_nodes(self) -> None:
        """Query the cloud about unconfirmed nodes: no answer must not look like a removed node."""
        await self._context.confirm(self._candidates())

    def _candidates(self) -> list[Node]:
        return balanced_nodes(self._context.nodes.store, self._context.platforms, lambda _node: True)

    def _tell(self, service: Service, reason: str, note: str) -> None:
        self._recorder.event(service, reason=reason, note=note)

    def _warn(self, service: Service, reason: str, note: str) -> None:
        self._recorder.event(service, type="Warning", reason=reason, note=note)


def _is_unwanted(service: Service) -> bool:
    return needs_cleanup(service) or not wants_load_balancer(service)
