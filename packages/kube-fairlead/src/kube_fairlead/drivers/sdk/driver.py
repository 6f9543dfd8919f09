"""What the author of a driver writes."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence

from kube_fairlead.driverapi.errors import DriverRefused
from kube_fairlead.driverapi.messages import OfferedTransition, Progress, Work

__all__ = ["Driver", "Refused", "Report"]

Report = Callable[[Progress], None]
"""Report the progress of the work. Returns at once."""

Refused = DriverRefused
"""Raise it to end the event as Failed with these words."""


class Driver(abc.ABC):
    """One driver: a name, the transitions it offers, and what to do at the start and until the end of one.

    Both methods may be called again for the same event uid: after the agent or this process was restarted, or when a
    connection broke. Within one life of the process the SDK remembers what is done and calls only for the rest; across
    lives it is the driver's own to see what is done already. Both are cancelled at the deadline of the work.

    An exception ends the event as Failed; `Refused` chooses the words.
    """

    name: str
    """As LifecycleTransitions spell it in `spec.driver`, such as `example.com/reboot`."""

    transitions: Sequence[OfferedTransition] = ()

    async def offered(self, node_name: str) -> Sequence[OfferedTransition]:
        """The transitions offered on a node; the same on every node unless this is overridden."""
        del node_name
        return self.transitions

    @abc.abstractmethod
    async def start(self, work: Work) -> None:
        """Enter the start state. The Node says so when this has returned, so it should not take long."""

    @abc.abstractmethod
    async def end(self, work: Work, report: Report) -> None:
        """Bring the node to the end state, however long it takes."""

    @property
    def healthy(self) -> bool:
        """Whether the driver can do its work; called for each health check."""
        return True
