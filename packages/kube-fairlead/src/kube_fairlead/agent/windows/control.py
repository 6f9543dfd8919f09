"""The states of a Windows service, and the effect of each control. Pure.

    START_PENDING --(started)--> RUNNING --(STOP, PRESHUTDOWN)--> STOP_PENDING --(finished)--> STOPPED
          |                         |                                                              ^
          '-------------------------'--------------------------(finished)--------------------------'

A preshutdown notification is for the agent's shutdown manager. Before that is attached, and in a service that stops
already, no pods can be terminated: the notification only stops the service, so that Windows does not wait for it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = [
    "LEGAL_MOVES",
    "START_HINT_MS",
    "STOP_HINT_MS",
    "Accept",
    "Answer",
    "Control",
    "Effect",
    "IllegalStateChange",
    "ServiceModel",
    "ServiceState",
    "Status",
]

START_HINT_MS: Final = 30_000
STOP_HINT_MS: Final = 10_000


class ServiceState(enum.IntEnum):
    """The states of a service. One that can be paused has three more."""

    STOPPED = 1
    START_PENDING = 2
    STOP_PENDING = 3
    RUNNING = 4


LEGAL_MOVES: Mapping[ServiceState, frozenset[ServiceState]] = MappingProxyType(
    {
        ServiceState.START_PENDING: frozenset(
            {
                ServiceState.START_PENDING,
                ServiceState.RUNNING,
                ServiceState.STOPPED,
            }
        ),
        ServiceState.RUNNING: frozenset({ServiceState.STOP_PENDING, ServiceState.STOPPED}),
        ServiceState.STOP_PENDING: frozenset({ServiceState.STOP_PENDING, ServiceState.STOPPED}),
        ServiceState.STOPPED: frozenset(),
    }
)

_PENDING: Final = frozenset({ServiceState.START_PENDING, ServiceState.STOP_PENDING})


class Control(enum.IntEnum):
    """The controls of the service control manager."""

    STOP = 1
    INTERROGATE = 4
    SHUTDOWN = 5
    PARAMCHANGE = 6
    PRESHUTDOWN = 15


class Accept(enum.IntFlag):
    """The controls that a service accepts."""

    NONE = 0
    STOP = 0x1
    SHUTDOWN = 0x4
    PARAMCHANGE = 0x8
    PRESHUTDOWN = 0x100


class Answer(enum.IntEnum):
    """The result of the control handler."""

    DONE = 0  # NO_ERROR
    UNKNOWN = 120  # ERROR_CALL_NOT_IMPLEMENTED
    NOT_NOW = 1061  # ERROR_SERVICE_CANNOT_ACCEPT_CTRL


class Effect(enum.Enum):
    """What this process does about a control."""

    NOTHING = enum.auto()
    STOP = enum.auto()  # stop as after SIGTERM
    SHUT_DOWN = enum.auto()  # terminate the pods, then stop
    IGNORE_AND_STOP = enum.auto()  # no shutdown handler is attached: only stop
    RELOAD = enum.auto()  # the settings of the service changed


class IllegalStateChange(Exception):
    """Raised when a service cannot change to a state from its present one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status that a service reports to the service control manager.

    1. A pending state has a checkpoint, one more than the report before, and a hint how long until the next.
    2. Any other state has neither.
    3. Controls are accepted while it runs, and only then.
    """

    state: ServiceState
    accepts: Accept = Accept.NONE
    checkpoint: int = 0
    wait_hint_ms: int = 0
    exit_code: int = 0


class ServiceModel:
    """One service from its start to its end. The caller reports `status` after every change."""

    def __init__(self, *, accepts_preshutdown: bool = True) -> None:
        notice = Accept.PRESHUTDOWN if accepts_preshutdown else Accept.SHUTDOWN
        self._accepts = Accept.STOP | Accept.PARAMCHANGE | notice
        self.status = Status(state=ServiceState.START_PENDING, checkpoint=1, wait_hint_ms=START_HINT_MS)
        self.is_attached = False  # a shutdown handler terminates the node's pods

    def started(self) -> None:
        """The control handler is registered."""
        self._move(ServiceState.RUNNING)

    def progressed(self) -> bool:
        """Note progress. Return whether there is a new status to report, which only a pending state has."""
        if self.status.state not in _PENDING:
            return False
        self._move(self.status.state)
        return True

    def finished(self, exit_code: int = 0) -> bool:
        """Note the end. Return whether there is a new status to report."""
        if self.status.state is ServiceState.STOPPED:
            return False
        self._move(ServiceState.STOPPED, exit_code=exit_code)
        return True

    def handle(self, control: int) -> tuple[Answer, Effect]:
        """Handle a control: return the result for Windows, and the effect for this process."""
        if control == Control.INTERROGATE:
            return Answer.DONE, Effect.NOTHING  # the service control manager has the last report
        needed = _NEEDED.get(control)
        if needed is None or needed not in self._accepts:
            return Answer.UNKNOWN, Effect.NOTHING
        if self.status.state is not ServiceState.RUNNING:
            return Answer.NOT_NOW, Effect.NOTHING
        if control == Control.PARAMCHANGE:
            return Answer.DONE, Effect.RELOAD
        self._move(ServiceState.STOP_PENDING)
        if control != Control.PRESHUTDOWN:
            return Answer.DONE, Effect.STOP
        return Answer.DONE, Effect.SHUT_DOWN if self.is_attached else Effect.IGNORE_AND_STOP

    def _move(self, state: ServiceState, exit_code: int = 0) -> None:
        before = self.status
        if state not in LEGAL_MOVES[before.state]:
            raise IllegalStateChange(f"a service that is {before.state.name} cannot become {state.name}")
        if state not in _PENDING:
            accepts = self._accepts if state is ServiceState.RUNNING else Accept.NONE
            self.status = Status(state=state, accepts=accepts, exit_code=exit_code)
            return
        self.status = Status(
            state=state,
            checkpoint=before.checkpoint + 1 if before.state is state else 1,
            wait_hint_ms=START_HINT_MS if state is ServiceState.START_PENDING else STOP_HINT_MS,
        )


_NEEDED: Final[Mapping[int, Accept]] = MappingProxyType(
    {
        Control.STOP: Accept.STOP,
        Control.SHUTDOWN: Accept.SHUTDOWN,
        Control.PARAMCHANGE: Accept.PARAMCHANGE,
        Control.PRESHUTDOWN: Accept.PRESHUTDOWN,
    }
)
