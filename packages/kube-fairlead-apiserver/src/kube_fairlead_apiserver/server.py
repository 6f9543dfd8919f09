"""The assembled API server: its parts, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from kube_fairlead.api import reserved
from kube_fairlead.api.json_object import Json
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import Ids
from kube_fairlead.base.metrics import CONTENT_TYPE, Metrics
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_apiserver import health
from kube_fairlead_apiserver.access_control import AccessControl
from kube_fairlead_apiserver.admission.chain import Chain
from kube_fairlead_apiserver.admission.plugins import default_chain
from kube_fairlead_apiserver.admission.webhooks.http_sender import HttpSender
from kube_fairlead_apiserver.app import Application, Observer, PathHandler
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.bootstrap import bootstrap
from kube_fairlead_apiserver.controllers.custom_resource_definitions import DefinitionController
from kube_fairlead_apiserver.controllers.disruption import DisruptionController
from kube_fairlead_apiserver.controllers.garbage_collector import GarbageCollector
from kube_fairlead_apiserver.controllers.loop import Controller, ControllerLoop
from kube_fairlead_apiserver.controllers.namespace_defaults import default_account, root_ca
from kube_fairlead_apiserver.controllers.namespaces import NamespaceController
from kube_fairlead_apiserver.controllers.policy_status import PolicyStatusController
from kube_fairlead_apiserver.controllers.stale_disruption import StaleDisruptionController
from kube_fairlead_apiserver.discovery import Discovery
from kube_fairlead_apiserver.dispatch import Dispatcher, Handlers
from kube_fairlead_apiserver.flowcontrol.filter import Budgets, FlowControl
from kube_fairlead_apiserver.http.asgi import AsgiApp
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.observability.admission_metrics import AdmissionMetrics
from kube_fairlead_apiserver.observability.request_metrics import GracefulDeletions, RequestMetrics
from kube_fairlead_apiserver.openapi.endpoints import OpenApiEndpoints
from kube_fairlead_apiserver.operations import persistence
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.registry.builtin import builtin_resources
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.lifecycle import lifecycle_resources
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.settings import COMPACTION_SECONDS
from kube_fairlead_apiserver.storage.interface import DiskFull, Log
from kube_fairlead_apiserver.storage.store import Store
from kube_fairlead_apiserver.verbs.watch_timers import WatchTimers

__all__ = ["ApiServer", "Dependencies"]

_log = logs.get_logger(__name__)
_ROOM_SECONDS = 1.0


class Dependencies(msgspec.Struct, frozen=True):
    """What a server takes from outside: clock, randomness, ids, metrics. Tests and the simulation inject their own."""

    clock: Clock
    randomness: Randomness
    ids: Ids
    metrics: Metrics


class ApiServer:
    """One API server over one log. `open` reads the stored objects, `run` serves until it is cancelled."""

    def __init__(
        self,
        disk: Log,
        dependencies: Dependencies,
        access: Callable[[Core], AccessControl],
        *,
        address: str = "127.0.0.1:6443",
        observers: Sequence[Observer] = (),
        controllers: Callable[[str], bool] = lambda _name: True,
        compaction_seconds: float = COMPACTION_SECONDS,
        budgets: Budgets | None = None,
        lifecycle_group: str = reserved.LIFECYCLE_GROUP,  # empty: the lifecycle kinds are not served
        ready_checks: Mapping[str, Callable[[], str | None]] = MappingProxyType({}),
    ) -> None:
        self._ready_checks = {"storage": self._storage_problem, **ready_checks}
        self._address = address
        self._port = int(address.rpartition(":")[2])
        self.dependencies = dependencies
        self.store = Store(disk, clock=dependencies.clock)
        self.catalog = Catalog(
            [*builtin_resources(), *(lifecycle_resources(lifecycle_group) if lifecycle_group else ())]
        )
        self.core = Core(
            self.store,
            self.catalog,
            dependencies.clock,
            dependencies.ids,
            Chain(),
            GracefulDeletions(dependencies.metrics).count,
        )
        self._access = access(self.core)
        self._webhooks = HttpSender()
        admission_metrics = AdmissionMetrics(dependencies.clock, dependencies.metrics)
        chain = default_chain(
            self.store,
            self.catalog,
            clock=dependencies.clock,
            ids=dependencies.ids,
            authorize=self._access.authorize,
            sender=self._webhooks,
            metrics=admission_metrics,
        )
        self.core.admission = Chain([*chain.plugins, *self._access.plugins], admission_metrics)
        self._watch_timers = WatchTimers(self.store, dependencies.clock, dependencies.randomness)
        self._definitions = DefinitionController(self.core, self._reindex)
        self._compaction_seconds = compaction_seconds
        self._loops = [
            ControllerLoop(controller, dependencies.clock, dependencies.randomness)
            for controller in self._controllers()
            if controller is self._definitions or controllers(controller.name)
        ]
        self._ready = asyncio.Event()
        requests = RequestMetrics(dependencies.clock, self.catalog, dependencies.metrics)
        self.flow = FlowControl(budgets or Budgets(), dependencies.clock, dependencies.metrics)
        self._observers = (requests, *observers)
        self.handle = self._application().handle
        self.app = AsgiApp(self.handle)  # for clients in this process

    def _controllers(self) -> list[Controller]:
        return [
            self._definitions,
            NamespaceController(self.core),
            default_account(self.core),
            root_ca(self.core, self._access.root_ca),
            GarbageCollector(self.core),
            DisruptionController(self.core),
            StaleDisruptionController(self.core),
            PolicyStatusController(self.core),
        ]

    def _application(self) -> Application:
        checks = health.Health(live={"ping": lambda: None}, ready=self._ready_checks)
        discovery = Discovery(self.catalog, self._address)
        openapi = OpenApiEndpoints(self.catalog)
        paths: dict[str, PathHandler] = {
            **checks.paths(),
            **discovery.paths(),
            **openapi.paths(),
            "/metrics": self._metrics,
        }
        paths.update(self._access.paths)
        prefixes: dict[str, PathHandler] = {**checks.prefixes(), **discovery.prefixes(), **openapi.prefixes()}
        return Application(
            Dispatcher(self.core, self._load_handlers, self._access.authorizer.require),
            self._access.authenticator,
            self._access.authorizer,
            paths,
            prefixes,
            self.dependencies.ids,
            self.flow,
            self._access.impersonate,
            self._observers,
        )

    def _load_handlers(self) -> Handlers:
        from kube_fairlead_apiserver.handlers import all_handlers  # loaded by the first request; `handlers` says why

        return all_handlers(self._watch_timers, self._access.load_handlers())

    def _storage_problem(self) -> str | None:
        return self.store.shortage if self._ready.is_set() else "starting or stopping"

    async def _metrics(self, _request: Request, _user: UserInfo) -> Response:
        return Response(200, self.dependencies.metrics.exposition(), CONTENT_TYPE)

    def open(self) -> None:
        """Read the stored objects. Raises when the storage is damaged."""
        self.store.open(self._index)
        self._definitions.serve_established()
        self._access.opened()

    def _reindex(self, resource: Resource) -> None:
        self.store.reindex(resource.table, lambda entry: persistence.index(resource, resource.decode(entry)))

    def _index(self, table: str, stored: Json) -> tuple[Mapping[str, str], Mapping[str, str]]:
        resource = self.catalog.of_table(table)
        if resource is None:
            # A custom resource whose definition is not known yet is indexed again once it is.
            return stored["metadata"].get("labels") or {}, {}
        return persistence.index(resource, stored)

    async def run(self) -> None:
        """Serve until cancelled; then end watches, finish writes and close the storage."""
        try:
            async with TaskScope("apiserver") as storage:
                storage.start(self.store.run(), name="storage")
                try:
                    await self._serve()
                finally:
                    self._ready.clear()
                    self.store.stop()
        finally:
            await self._webhooks.close()
            await self.store.close()

    async def _serve(self) -> None:
        async with TaskScope("apiserver", on_exit=OnExit.CANCEL) as scope:
            for loop in self._loops:
                self.store.observe(loop.observe)
                scope.start(loop.run(), name=loop.name)
            scope.start(self._watch_timers.run(), name="watches")
            await self.store.make_room()
            if self.store.shortage is None or not self.store.revision:
                await self._bootstrap()
            scope.start(self._make_room(), name="room on the disk")
            self._ready.set()
            await scope.start(self._compact(), name="compaction")

    async def _bootstrap(self) -> None:
        await bootstrap(self.core, self._access.policy, service_port=self._port)

    async def _make_room(self) -> None:
        """While the disk is full, compact and check for free space."""
        while True:
            await self.store.wait_short()
            _log.error("disk full: only deletions are accepted", error=self.store.shortage)
            while self.store.shortage is not None:
                await self.dependencies.clock.sleep(_ROOM_SECONDS)
                await self.store.make_room()
            _log.info("disk space available again: all writes are accepted")
            try:
                await self._bootstrap()  # skipped when the server starts on a full disk
            except* DiskFull as group:
                _log.warning("disk full again", error=str(group.exceptions[0]))

    async def wait_ready(self) -> None:
        """Return once the server accepts requests."""
        await self._ready.wait()

    def end_watches(self) -> None:
        """End every watch cleanly, so that the connections they hold can close."""
        self._ready.clear()
        self.store.end_watches()

    async def _compact(self) -> None:
        """Compact at an interval; each pass drops revisions older than the previous pass."""
        previous = self.store.revision
        while True:
            await self.dependencies.clock.sleep(self._compaction_seconds)
            current = self.store.revision
            try:
                await self.store.compact(previous)
            except DiskFull as error:
                # Compaction frees space, but needs a little first. The next pass drops what this one could not.
                _log.warning("compaction failed", error=str(error))
            previous = current
