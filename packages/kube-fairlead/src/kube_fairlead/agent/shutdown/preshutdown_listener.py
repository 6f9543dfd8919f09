"""Hearing a Windows machine go down: SERVICE_CONTROL_PRESHUTDOWN, which only a service can hear.

The machine waits for a service that asked to hear it until that has stopped, for its preshutdown timeout at most;
where that is too short it is raised, and read again. In the list of services that hear it in order we come before those
that we need. There is no cancellation: a machine that has said it goes down does.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager_windows.go
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol

from kube_fairlead.agent.windows.service import Service
from kube_fairlead.agent.windows.shutdown_order import placed
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock

__all__ = ["Order", "PreshutdownListener", "Timeouts"]

_MILLISECONDS_MAX: Final = 0xFFFF_FFFF
# A kubelet that starts puts itself before what it needs, and with that behind us; and what failed may work by now.
_LOOK_AGAIN_SECONDS: Final = 60.0

_log = logs.get_logger(__name__)


class Timeouts(Protocol):
    """What is asked of the service control manager; see `agent.windows.scm`. Each raises OSError."""

    def preshutdown_timeout_ms(self, name: str) -> int:
        """How long the machine waits for a service."""
        ...

    def set_preshutdown_timeout_ms(self, name: str, timeout_ms: int) -> None:
        """Have it wait so long."""
        ...


class Order(Protocol):
    """What is asked of the registry; see `agent.windows.registry`. Each raises OSError."""

    def order(self) -> list[str] | None:
        """The services that hear it one after the other; None when there is no such list."""
        ...

    def set_order(self, order: Sequence[str]) -> None:
        """Change it."""
        ...

    def dependencies(self, service: str) -> list[str]:
        """The services that one needs."""
        ...


class PreshutdownListener:
    """A `ShutdownListener` of a process that is a Windows service. `problem` says why Windows might not wait.

    Whether the machine was going down before this process started, nobody can tell.
    """

    def __init__(
        self,
        service: Service,
        timeouts: Timeouts,
        order: Order,
        clock: Clock,
        *,
        kubelet: str = "",
        kubelet_owns: bool = False,
    ) -> None:
        self._service = service
        self._timeouts = timeouts
        self._order = order
        self._clock = clock
        self._kubelet = kubelet  # the name of its service
        self._kubelet_owns = kubelet_owns
        self._order_problem = ""
        self._words: asyncio.Queue[bool] = asyncio.Queue()
        self._changed = asyncio.Event()
        self.preparing: bool | None = None
        self.problem = ""

    @contextlib.asynccontextmanager
    async def running(self, needed_seconds: float) -> AsyncIterator[None]:
        """Listen. A notice that came before this block has ended the service already."""
        await asyncio.to_thread(self._introduce, needed_seconds)
        with self._service.attached(self):
            async with tasks.TaskScope("preshutdown", on_exit=tasks.OnExit.CANCEL) as scope:
                scope.start(self._follow_settings(needed_seconds), name="settings")
                yield

    async def next_word(self) -> bool:
        """The next announcement. There is one at most."""
        return await self._words.get()

    async def release(self) -> None:
        """Let the machine go down: a service that has stopped is not waited for."""
        if self.preparing:
            _log.info("the machine need not wait any more")
            self._service.finish()

    def go_down(self) -> None:
        """The service heard the notice."""
        self.preparing = True
        self._words.put_nowait(True)

    def read_again(self) -> None:
        """Somebody changed the settings of the service: they must still be long enough."""
        self._changed.set()

    async def _follow_settings(self, needed_seconds: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with self._clock.timeout(_LOOK_AGAIN_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            if not self.preparing:
                await asyncio.to_thread(self._introduce, needed_seconds)

    def _introduce(self, needed_seconds: float) -> None:
        """See to it that the machine waits long enough, and tells us in time."""
        before, self.problem = self.problem, self._lengthen(min(math.ceil(needed_seconds * 1000), _MILLISECONDS_MAX))
        if self.problem and self.problem != before:
            _log.error("the machine may not wait for its pods", problem=self.problem)
        try:
            problem = self._take_place()
        except OSError as error:
            problem = f"cannot take a place in PreshutdownOrder: {error}"
        if problem and problem != self._order_problem:
            # Only an improvement is lost: the machine tells us all the same, at the same time as others.
            _log.warning("services that are needed may stop first", problem=problem)
        self._order_problem = problem

    def _lengthen(self, needed_ms: int) -> str:
        """What keeps the machine from waiting so long, if something does."""
        name = self._service.name
        try:
            found_ms = self._timeouts.preshutdown_timeout_ms(name)
            if found_ms >= needed_ms:
                return ""
            self._timeouts.set_preshutdown_timeout_ms(name, needed_ms)
            now_ms = self._timeouts.preshutdown_timeout_ms(name)
        except OSError as error:
            return f"the preshutdown timeout cannot be raised to {needed_ms} ms: {error.strerror or error}"
        if now_ms < needed_ms:
            return f"the machine waits {now_ms} ms for the service and pods may need {needed_ms} ms"
        _log.info("the machine waits longer now", before_ms=found_ms, now_ms=now_ms)
        return ""

    def _take_place(self) -> str:
        """Be notified after a kubelet that ends the pods, and before what we need. What keeps us from it, if any."""
        found = self._order.order()
        if found is None:
            return "this system has no PreshutdownOrder"
        order = placed(
            self._service.name,
            found,
            needs=self._order.dependencies(self._service.name),
            after=self._kubelet if self._kubelet_owns else "",
            before="" if self._kubelet_owns else self._kubelet,
        )
        if order != found:
            self._order.set_order(order)
            _log.info("took a place in PreshutdownOrder", order=order)
        return ""
