"""The base class of drivers."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence

from kube_fairlead.driverapi.errors import DriverRefused
from kube_fairlead.driverapi.messages import OfferedTransition, Progress, Work

__all__ = ["Driver", "Refused", "Report"]

Report = Callable[[Progress], None]
"""Report the progress of the work. Returns at once."""

Refused = DriverRefused
"""Raise it to end the event as Failed with this message."""


class Driver(abc.ABC):
    """One driver: a name, the transitions that it offers, and a method for the start and the end state of each.

    Both methods may be called again for the same event uid: after a restart of the agent or of this process, or after a
    broken connection. The SDK does not repeat a call that has returned in this process. After a restart, the driver
    itself must find out what is already done. Both methods are cancelled at the deadline of the work.

    An exception ends the event as Failed; `Refused` sets the message.
    """

    name: str
    """The name in `spec.driver` of LifecycleTransitions, such as `example.com/reboot`."""

    transitions: Sequence[OfferedTransition] = ()

    async def offered(self, node_name: str) -> Sequence[OfferedTransition]:
        """The transitions offered on a node; the same on every node unless this is overridden."""
        del node_name
        return self.transitions

    @abc.abstractmethod
    async def start(self, work: Work) -> None:
        """Bring the node to the start state. The Node shows it when this returns, so it should not take long."""

    @abc.abstractmethod
    async def end(self, work: Work, report: Report) -> None:
        """Bring the node to the end state. This may take until the deadline of the work."""

    @property
    def healthy(self) -> bool:
        """Whether the driver can work; read by each health check."""
        return True
