"""The kubelet of a Windows node, as the service control manager knows it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from fairlead.agent.shutdown.ending import RuntimeFailed
from fairlead.agent.windows.control import Accept, ServiceState
from fairlead.agent.windows.scm import ScmError, ServiceFacts
from fairlead.base import logs
from fairlead.base.clock import Clock

__all__ = ["KubeletService", "Services"]

_STOP_SECONDS: Final = 3.0
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


class KubeletService:
    """A `KubeletControl` for a kubelet that is a service of its own (`--windows-service`)."""

    def __init__(
        self,
        clock: Clock,
        services: Services,
        *,
        name: str = "kubelet",
        is_configured: bool = False,
        terminate: Callable[[int], None] | None = None,
    ) -> None:
        self._clock = clock
        self._services = services
        self._name = name
        self._is_configured = is_configured
        self._terminate = terminate or _terminate

    async def ends_pods(self) -> bool:
        """Whether it has been set up to, and is there to do it: it hears the notice, or is busy with it."""
        if not self._is_configured:
            return False  # with its gate on it hears the notice all the same, and only stops
        facts = await self._ask(lambda: self._services.facts(self._name))
        if facts is None:
            return False
        return facts.state == ServiceState.STOP_PENDING or bool(facts.accepts & Accept.PRESHUTDOWN)

    async def stop(self) -> None:
        """Stop the service and wait until it has; one that does not listen is ended. Where there is none, all is well.

        While the machine goes down the manager may refuse to pass a STOP on; then the process is ended as well.
        """
        if not await self._runs():
            return
        try:
            await self._ask(lambda: self._services.stop(self._name))
            async with self._clock.timeout(_STOP_SECONDS):
                while await self._runs():
                    await self._clock.sleep(_POLL_SECONDS)
        except (RuntimeFailed, TimeoutError) as error:
            _log.warning("the kubelet does not stop and is ended", error=str(error) or "it takes too long")
            await self._end()
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

    async def _end(self) -> None:
        facts = await self._ask(lambda: self._services.facts(self._name))
        if facts is None or not facts.process_id:
            return
        try:
            self._terminate(facts.process_id)
        except OSError as error:
            raise RuntimeFailed(f"the kubelet's process {facts.process_id} cannot be ended: {error}") from error

    async def _ask(self, question: Callable[[], _T]) -> _T:
        try:
            return await asyncio.to_thread(question)
        except ScmError as error:
            raise RuntimeFailed(str(error)) from error


def _terminate(process_id: int) -> None:
    # On Windows this is TerminateProcess, whatever the signal.
    os.kill(process_id, signal.SIGTERM)
