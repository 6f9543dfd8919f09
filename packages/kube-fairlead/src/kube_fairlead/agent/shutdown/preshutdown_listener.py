"""Receive the announcement of a shutdown on Windows: SERVICE_CONTROL_PRESHUTDOWN, which only a service receives.

Windows waits until the service has stopped, for at most its preshutdown timeout; the listener raises a timeout that is
too short and reads it again. In the list of services that are notified in order, the agent comes before the services
that it needs. A shutdown cannot be cancelled after its announcement.

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
# A starting kubelet changes the order, and a setting that failed may succeed later.
_LOOK_AGAIN_SECONDS: Final = 60.0

_log = logs.get_logger(__name__)


class Timeouts(Protocol):
    """The calls of the service control manager, in `agent.windows.scm`. Each raises OSError."""

    def preshutdown_timeout_ms(self, name: str) -> int:
        """Return how long Windows waits for a service."""
        ...

    def set_preshutdown_timeout_ms(self, name: str, timeout_ms: int) -> None:
        """Set how long Windows waits for a service."""
        ...


class Order(Protocol):
    """The calls of the registry, in `agent.windows.registry`. Each raises OSError."""

    def order(self) -> list[str] | None:
        """Return the services that are notified in order; None when there is no such list."""
        ...

    def set_order(self, order: Sequence[str]) -> None:
        """Replace the list."""
        ...

    def dependencies(self, service: str) -> list[str]:
        """Return the services that a service depends on."""
        ...


class PreshutdownListener:
    """A `ShutdownListener` for a Windows service. `problem` says why Windows might not wait long enough.

    Windows does not show whether a shutdown began before this process started.
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
        self._kubelet = kubelet  # the name of the kubelet's service
        self._kubelet_owns = kubelet_owns
        self._order_problem = ""
        self._announcements: asyncio.Queue[bool] = asyncio.Queue()
        self._changed = asyncio.Event()
        self.preparing: bool | None = None
        self.problem = ""

    @contextlib.asynccontextmanager
    async def running(self, needed_seconds: float) -> AsyncIterator[None]:
        """Listen. An announcement before this block stops the service."""
        await asyncio.to_thread(self._configure, needed_seconds)
        with self._service.attached(self):
            async with tasks.TaskScope("preshutdown", on_exit=tasks.OnExit.CANCEL) as scope:
                scope.start(self._follow_settings(needed_seconds), name="settings")
                yield

    async def next_announcement(self) -> bool:
        """Wait for the announcement. There is at most one."""
        return await self._announcements.get()

    async def release(self) -> None:
        """Stop the service, so that Windows does not wait for it."""
        if self.preparing:
            _log.info("shutdown released")
            self._service.finish()

    def on_preshutdown(self) -> None:
        """Handle the preshutdown notification of the service."""
        self.preparing = True
        self._announcements.put_nowait(True)

    def on_settings_changed(self) -> None:
        """Check the settings again after another program changed them."""
        self._changed.set()

    async def _follow_settings(self, needed_seconds: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with self._clock.timeout(_LOOK_AGAIN_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            if not self.preparing:
                await asyncio.to_thread(self._configure, needed_seconds)

    def _configure(self, needed_seconds: float) -> None:
        """Raise the preshutdown timeout and update the order of notifications."""
        before, self.problem = (
            self.problem,
            self._raise_timeout(min(math.ceil(needed_seconds * 1000), _MILLISECONDS_MAX)),
        )
        if self.problem and self.problem != before:
            _log.error("the node may shut down before its pods end", problem=self.problem)
        try:
            problem = self._update_order()
        except OSError as error:
            problem = f"cannot update PreshutdownOrder: {error}"
        if problem and problem != self._order_problem:
            # Windows still notifies the agent, at the same time as other services.
            _log.warning("required services may stop before the agent", problem=problem)
        self._order_problem = problem

    def _raise_timeout(self, needed_ms: int) -> str:
        """Raise the timeout if it is too short; return the problem if that fails."""
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
            return f"Windows waits {now_ms} ms for the service and pods may need {needed_ms} ms"
        _log.info("preshutdown timeout raised", before_ms=found_ms, now_ms=now_ms)
        return ""

    def _update_order(self) -> str:
        """Place the agent after a kubelet that terminates pods, and before its dependencies; return the problem."""
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
            _log.info("PreshutdownOrder updated", order=order)
        return ""
