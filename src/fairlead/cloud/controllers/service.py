"""The service controller: Services of type LoadBalancer get one of this cloud's, which leads to this cloud's nodes."""

from __future__ import annotations

import contextlib

from fairlead.api import errors as api_errors
from fairlead.api.core_v1 import LoadBalancerStatus, Node, Service
from fairlead.base import logs, tasks
from fairlead.base.backoff import Backoff
from fairlead.client import errors as client_errors
from fairlead.client.informer import Handler, Informer
from fairlead.client.objects import Key, key_of
from fairlead.client.workqueue import QueueShutDown, WorkQueue
from fairlead.cloud.context import CloudContext
from fairlead.cloud.decisions.services import (
    ServiceStep,
    balanced_nodes,
    changes_targets,
    needs_cleanup,
    needs_update,
    same_targets,
    service_step,
    wants_load_balancer,
)
from fairlead.cloud.errors import CloudError, ImplementedElsewhere, NotReadyYet, ProviderError
from fairlead.cloud.parallel import for_each
from fairlead.cloud.provider import LoadBalancers
from fairlead.cloud.servicewriting import ServiceWriter
from fairlead.cloud.stopping import pause, shut_down_on, synced

__all__ = ["ServiceController"]

_RETRY = Backoff(initial_seconds=5.0, factor=2.0, cap_seconds=300.0, jitter=0.0)
_RESYNC_SECONDS = 30.0
_NODES_TO_NAME = 20

_log = logs.get_logger(__name__)


class ServiceController:
    """Works through Services as they come and change, and brings all load balancers in line when nodes do."""

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
        self._writer = ServiceWriter(context.client, context.provider.name, claims=bool(context.platforms))
        self._queue: WorkQueue[Key] = WorkQueue(self._clock, context.client.randomness, backoff=_RETRY)
        self._node_changes: WorkQueue[str] = WorkQueue(self._clock, context.client.randomness, backoff=_RETRY)
        self._balanced: dict[Key, Service] = {}  # those that have a load balancer here, as last seen
        self._targets: dict[Key, list[Node]] = {}

    async def run(self) -> None:
        """Ensure, update and remove until asked to stop."""
        self._services.add_handler(Handler(on_add=self._added, on_update=self._updated, on_delete=self._deleted))
        self._context.nodes.add_handler(
            Handler(on_add=self._node_changed, on_update=self._node_updated, on_delete=self._node_changed)
        )
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

    def _added(self, service: Service) -> None:
        if wants_load_balancer(service) or needs_cleanup(service):
            self._queue.add(key_of(service))

    def _updated(self, old: Service, new: Service) -> None:
        # The step changes when another manager lets go of it.
        if needs_update(old, new) or needs_cleanup(new) or self._step(old) is not self._step(new):
            self._queue.add(key_of(new))

    def _step(self, service: Service) -> ServiceStep:
        return service_step(service, provider=self._context.provider.name, platforms=self._context.platforms)

    def _deleted(self, service: Service) -> None:
        # Only one that lost our finalizer by force comes here with a load balancer left.
        if key_of(service) in self._balanced:
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
            _log.warning("service cannot be brought in line", service=str(key), error=str(error))
            self._queue.add_rate_limited(key)
        else:
            self._queue.forget(key)

    async def _resync(self) -> None:
        # A clean-up that was left half done must not wait for somebody to touch the Service.
        while not await pause(self._clock, _RESYNC_SECONDS, self._context.stopping):
            for service in self._services.store:
                if needs_cleanup(service):
                    self._queue.add(key_of(service))

    async def sync(self, key: Key) -> None:
        """Bring one Service in line."""
        service = self._services.store.by_key(key)
        before = self._balanced.get(key)
        if before is not None and (service is None or service.uid != before.uid):
            await self._delete_orphan(before)
        if service is None:
            return
        step = self._step(service)
        if step is ServiceStep.LEAVE_ALONE and key in self._balanced and not wants_load_balancer(service):
            step = ServiceStep.REMOVE  # somebody took our finalizer off
        try:
            if step is ServiceStep.ENSURE:
                await self._ensure(service)
            elif step is ServiceStep.REMOVE:
                await self._remove(service)
        except (CloudError, api_errors.ApiError) as error:
            if not isinstance(error, api_errors.Conflict | NotReadyYet):
                self._warn(service, "SyncLoadBalancerFailed", f"Error syncing load balancer: {error}")
            raise

    async def _ensure(self, service: Service) -> None:
        context, key = self._context, key_of(service)
        self._tell(service, "EnsuringLoadBalancer", "Ensuring load balancer")
        # Before anything exists in the cloud: the Service cannot go without it any more, and no other manager takes it.
        service = await self._writer.claim(service)
        nodes = balanced_nodes(context.nodes.store, context.platforms)
        if not nodes:
            self._warn(service, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
        self._balanced[key] = service
        self._targets[key] = nodes
        try:
            status = await context.calls.call(
                "ensure_load_balancer",
                lambda: self._balancers.ensure_load_balancer(context.cluster_name, service, nodes),
                changes=True,
            )
        except ImplementedElsewhere:
            return
        self._tell(service, "EnsuredLoadBalancer", "Ensured load balancer")
        await self._writer.set_status(service, status)

    async def _remove(self, service: Service) -> None:
        context, key = self._context, key_of(service)
        existing = await context.calls.call(
            "get_load_balancer", lambda: self._balancers.get_load_balancer(context.cluster_name, service)
        )
        if existing is not None:
            self._tell(service, "DeletingLoadBalancer", "Deleting load balancer")
            with contextlib.suppress(ImplementedElsewhere):
                await self._delete_balancer(service)
        with contextlib.suppress(api_errors.NotFound):
            service = await self._writer.set_status(service, LoadBalancerStatus())
            await self._writer.release(service)
        self._tell(service, "DeletedLoadBalancer", "Deleted load balancer")
        self._balanced.pop(key, None)
        self._targets.pop(key, None)

    async def _delete_orphan(self, service: Service) -> None:
        self._tell(service, "DeletingLoadBalancer", "Deleting load balancer")
        try:
            await self._delete_balancer(service)
        except CloudError as error:
            self._warn(service, "DeleteLoadBalancerFailed", f"Error deleting load balancer: {error}")
            raise
        self._tell(service, "DeletedLoadBalancer", "Deleted load balancer")
        self._balanced.pop(key_of(service), None)
        self._targets.pop(key_of(service), None)

    async def _delete_balancer(self, service: Service) -> None:
        context = self._context
        await context.calls.call(
            "ensure_load_balancer_deleted",
            lambda: self._balancers.ensure_load_balancer_deleted(context.cluster_name, service),
            changes=True,
        )

    async def _follow_nodes(self) -> None:
        with contextlib.suppress(QueueShutDown):
            while not self._context.stopping.is_set():
                # However many nodes changed: one look at all load balancers.
                names = [await self._node_changes.get()]
                while len(self._node_changes):
                    names.append(await self._node_changes.get())
                try:
                    await self.sync_nodes()
                finally:
                    for name in names:
                        self._node_changes.done(name)

    async def sync_nodes(self) -> None:
        """Bring the targets of all load balancers in line."""
        await for_each(
            list(self._balanced.items()),
            lambda one: self._retarget(*one),
            workers=self._workers,
            owner=self.name,
            stopping=self._context.stopping,
        )

    async def _retarget(self, key: Key, service: Service) -> None:
        context = self._context
        nodes = balanced_nodes(context.nodes.store, context.platforms)
        if not wants_load_balancer(service) or same_targets(self._targets.get(key, ()), nodes):
            return
        self._targets[key] = nodes
        try:
            await context.calls.call(
                "update_load_balancer",
                lambda: self._balancers.update_load_balancer(context.cluster_name, service, nodes),
                changes=True,
            )
        except ImplementedElsewhere:
            return
        except CloudError as error:
            names = [node.name for node in nodes[:_NODES_TO_NAME]]
            self._warn(
                service,
                "UpdateLoadBalancerFailed",
                f"Error updating load balancer with new hosts {names} [node names limited, total number of nodes: "
                f"{len(nodes)}], error: {error}",
            )
            self._queue.add_rate_limited(key)
            return
        if nodes:
            self._tell(service, "UpdatedLoadBalancer", "Updated load balancer with new hosts")
        else:
            self._warn(service, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")

    def _tell(self, service: Service, reason: str, note: str) -> None:
        self._recorder.event(service, reason=reason, note=note)

    def _warn(self, service: Service, reason: str, note: str) -> None:
        self._recorder.event(service, type="Warning", reason=reason, note=note)
