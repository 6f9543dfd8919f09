"""The state of one shutdown, in memory and on disk."""

from __future__ import annotations

from collections.abc import Callable

from kube_fairlead.agent.shutdown.state_file import ShutdownState, StateFile
from kube_fairlead.base import logs
from kube_fairlead.lifecycle import shutdown_plan

__all__ = ["ShutdownProgress"]

_log = logs.get_logger(__name__)


class ShutdownProgress:
    """The state of one shutdown, in memory and on disk."""

    def __init__(self, state_file: StateFile, state: ShutdownState, elapsed: Callable[[ShutdownState], float]) -> None:
        self._state_file = state_file
        self._elapsed = elapsed
        self.state = state
        self.is_on_disk = True
        self._is_behind = False  # the last change is not on disk yet

    @property
    def elapsed(self) -> float:
        """Seconds since the shutdown began."""
        return self._elapsed(self.state)

    @property
    def left(self) -> float:
        """Seconds until the end of the last group's period."""
        periods = self.state.periods
        return max(0.0, shutdown_plan.latest_end(periods, len(periods) - 1) - self.elapsed)

    def change(self, state: ShutdownState) -> None:
        """Change and store the state. A failed write is logged, and the shutdown continues."""
        self.state = state
        self._is_behind = False
        try:
            self._state_file.save(state)
            self.is_on_disk = True
        except OSError as error:
            if self.is_on_disk:
                _log.error("cannot store shutdown state; a restarted agent begins again", error=str(error))
            self.is_on_disk = False

    def change_unsaved(self, state: ShutdownState) -> None:
        """Change the state and store it with the next change, because every write to disk delays pods."""
        self.state = state
        self._is_behind = True

    def flush(self) -> None:
        """Store changes that are not on disk yet."""
        if self._is_behind:
            self.change(self.state)
