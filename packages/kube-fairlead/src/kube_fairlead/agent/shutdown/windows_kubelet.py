"""The kubelet of a Windows node, as the service control manager knows it."""

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
# Services that are notified together are notified within moments. One that still runs then comes after us in
# PreshutdownOrder: it is not notified before the agent has stopped.
_NOTICE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05

_T = TypeVar("_T")

_log = logs.get_logger(__name__)


class Services(Protocol):
    """What is asked of the service control manager; see `scm`."""

    def facts(self, name: str) -> ServiceFacts | None:
        """How a service stands; None when there is none of that name."""
        ...

    def start(self, name: str) -> None:
        """Start it."""
        ...

    def stop(self, name: str) -> None:
        """Ask it to stop."""
        ...


class ProcessTable(Protocol):
    """What is asked about processes; see `agent.windows.processes`. Each raises OSError."""

    def tree(self, process_id: int) -> Sequence[Process]:
        """A process and all that it has started, parents first."""
        ...

    def end(self, process: Process) -> bool:
        """End it, unless it has ended."""
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
        """Whether it has been set up to, and is there to do it: it is busy with it, or about to hear the notice.

        Asked while the machine goes down. A kubelet that was notified says STOP_PENDING at once, before it ends a pod.
        """
        if not self._is_configured:
            return False  # with its gate on it hears the notice all the same, and only stops
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
        """Stop the service and wait until it has; one that does not listen is ended. Where there is none, all is well.

        While the machine goes down the manager may refuse to pass a STOP on; then the process is ended as well. Of a
        service wrapper the child is the kubelet: whatever the service has started ends with it, the wrapper first,
        which would start its child again.
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
            _log.warning("the kubelet does not stop and is ended", error=str(error) or "it takes too long")
        await self._end(tree)
        _log.info("stopped the kubelet", service=self._name)

    async def start(self) -> None:
        """Start the service, if there is one that has stopped."""
        facts = await self._ask(lambda: self._services.facts(self._name))
        if facts is not None and facts.state == ServiceState.STOPPED:
            await self._ask(lambda: self._services.start(self._name))
            _log.info("started the kubelet", service=self._name)

    async def _runs(self) -> bool:
        facts = await self._ask(lambda: self._services.facts(self._name))
        return facts is not None and facts.state != ServiceState.STOPPED

    async def _end(self, tree: Sequence[Process]) -> None:
        """End what is left of the service."""
        for process in tree:
            try:
                ended = await asyncio.to_thread(self._processes.end, process)
            except OSError as error:
                raise RuntimeFailed(
                    f"the kubelet's process {process.process_id} {process.name} cannot be ended: {error}"
                ) from error
            if ended:
                _log.info("ended a process of the kubelet", process_id=process.process_id, name=process.name)

    async def _ask(self, question: Callable[[], _T]) -> _T:
        try:
            return await asyncio.to_thread(question)
        except OSError as error:
            raise RuntimeFailed(str(error)) from error
