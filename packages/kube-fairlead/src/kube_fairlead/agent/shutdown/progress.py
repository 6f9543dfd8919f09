"""How far one shutdown is: in memory and on disk at once."""

from __future__ import annotations

from collections.abc import Callable

from kube_fairlead.agent.shutdown.state_file import ShutdownState, StateFile
from kube_fairlead.base import logs
from kube_fairlead.lifecycle import shutdown_plan

__all__ = ["ShutdownProgress"]

_log = logs.get_logger(__name__)


class ShutdownProgress:
    """The state of one shutdown, in memory and on disk at once."""

    def __init__(self, memory: StateFile, state: ShutdownState, elapsed: Callable[[ShutdownState], float]) -> None:
        self._memory = memory
        self._elapsed = elapsed
        self.state = state
        self.is_on_disk = True
        self._is_behind = False  # the disk does not have the last change yet

    @property
    def elapsed(self) -> float:
        """Seconds since the shutdown began."""
        return self._elapsed(self.state)

    @property
    def left(self) -> float:
        """Seconds until all groups' time is over."""
        periods = self.state.periods
        return max(0.0, shutdown_plan.latest_end(periods, len(periods) - 1) - self.elapsed)

    def change(self, state: ShutdownState) -> None:
        """Remember. A disk that fails is no reason to stop."""
        self.state = state
        self._is_behind = False
        try:
            self._memory.save(state)
            self.is_on_disk = True
        except OSError as error:
            if self.is_on_disk:
                _log.error("cannot write down how far the shutdown is: a restart would begin anew", error=str(error))
            self.is_on_disk = False

    def change_later(self, state: ShutdownState) -> None:
        """Remember with the next change. Every write waits for the disk, and pods wait for the write."""
        self.state = state
        self._is_behind = True

    def catch_up(self) -> None:
        """Remember what was left for later."""
        if self._is_behind:
            self.change(self.state)
