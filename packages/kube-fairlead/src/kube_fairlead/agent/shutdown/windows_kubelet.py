"""Control the kubelet of a Windows node through the service control manager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from kube_fairlead.agent.shutdown.pod_runtime import RuntimeFailed
from kube_fairlead.agent.windows.control import Accept, ServiceState
from kube_fairlead.agent.windows.processes import Process
from kube_fairlead.agent.windows.scm import ServiceFacts
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock

__all__ = ["ProcessTable", "Services", "WindowsKubelet"]

_STOP_SECONDS: Final = 3.0
# Windows notifies services that have no order at almost the same time. A kubelet that still runs afterwards comes after
# the agent in PreshutdownOrder, and is not notified before the agent has stopped.
_NOTICE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05

_T = TypeVar("_T")

_log = logs.get_logger(__name__)


class Services(Protocol):
    """The calls of the service control manager, in `agent.windows.scm`."""

    def facts(self, name: str) -> ServiceFacts | None:
        """Return the status of a service; None when there is no such service."""
        ...

    def start(self, name: str) -> None:
        """Start a service."""
        ...

    def stop(self, name: str) -> None:
        """Request a service to stop."""
        ...


class ProcessTable(Protocol):
    """The calls about processes, in `agent.windows.processes`. Each raises OSError."""

    def tree(self, process_id: int) -> Sequence[Process]:
        """Return a process and all its descendants, parents first."""
        ...

    def end(self, process: Process) -> bool:
        """Terminate a process, unless it has ended."""
        ...


class WindowsKubelet:
    """A `KubeletControl` for a kubelet that is a service of its own, or the child of one (nssm)."""

    def __init__(
        self,
        clock: Clock,
        services: Services,
        processes: ProcessTable,
        *,
        name: str = "kubelet",
        is_configured: bool = False,
    ) -> None:
        self._clock = clock
        self._services = services
        self._processes = processes
        self._name = name
        self._is_configured = is_configured
        self._first_asked: float | None = None

    async def ends_pods(self) -> bool:
        """Whether the kubelet is configured to terminate pods, and does so or is about to be notified.

        Called during a shutdown. A notified kubelet reports STOP_PENDING at once, before it terminates a pod.
        """
        if not self._is_configured:
            return False  # with its feature gate on it is still notified, and only stops
        facts = await self._ask(lambda: self._services.facts(self._name))
        if facts is None:
            return False
        if facts.state == ServiceState.STOP_PENDING:
            return True
        now = self._clock.monotonic()
        self._first_asked = now if self._first_asked is None else self._first_asked
        may_be_notified = now - self._first_asked < _NOTICE_SECONDS
        return bool(facts.accepts & Accept.PRESHUTDOWN) and may_be_notified

    async def stop(self) -> None:
        """Stop the service and wait for its end; terminate it if it does not stop. Without a service, do nothing.

        During a shutdown the service control manager may reject a STOP; then the process is terminated too. The kubelet
        may be the child of a service wrapper: all processes of the service are terminated, the wrapper first, because
        it would restart its child.
        """
        facts = await self._ask(lambda: self._services.facts(self._name))
        if facts is None or facts.state == ServiceState.STOPPED:
            return
        tree = await self._ask(lambda: self._processes.tree(facts.process_id)) if facts.process_id else ()
        try:
            await self._ask(lambda: self._services.stop(self._name))
            async with self._clock.timeout(_STOP_SECONDS):
                while await self._runs():
                    await self._clock.sleep(_POLL_SECONDS)
        except (RuntimeFailed, TimeoutError) as error:
            _log.warning("kubelet does not stop; terminating its processes", error=str(error) or "it takes too long")
        await self._end(tree)
        _log.info("kubelet stopped", service=self._name)

    async def start(self) -> None:
        """Start the service, if it exists and is stopped."""
        facts = await self._ask(lambda: self._services.facts(self._name))
        if facts is not None and facts.state == ServiceState.STOPPED:
            await self._ask(lambda: self._services.start(self._name))
            _log.info("kubelet started", service=self._name)

    async def _runs(self) -> bool:
        facts = await self._ask(lambda: self._services.facts(self._name))
        return facts is not None and facts.state != ServiceState.STOPPED

    async def _end(self, tree: Sequence[Process]) -> None:
        """Terminate the remaining processes of the service."""
        for process in tree:
            try:
                ended = await asyncio.to_thread(self._processes.end, process)
            except OSError as error:
                raise RuntimeFailed(
                    f"the kubelet's process {process.process_id} {process.name} cannot be ended: {error}"
                ) from error
            if ended:
                _log.info("kubelet process terminated", process_id=process.process_id, name=process.name)

    async def _ask(self, question: Callable[[], _T]) -> _T:
        try:
            return await asyncio.to_thread(question)
        except OSError as error:
            raise RuntimeFailed(str(error)) from error
