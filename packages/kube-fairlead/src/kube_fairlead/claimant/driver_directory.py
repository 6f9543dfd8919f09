"""The registered drivers of this node: which of them answer, and how to call them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from kube_fairlead.driverapi.channels import DriverChannel
from kube_fairlead.driverapi.messages import OfferedTransition
from kube_fairlead.lifecycle.claims import Drivers
from kube_fairlead.lifecycle.facts import DriverTraits, Unreachable

__all__ = ["DriverDirectory", "Registration"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Registration:
    """One endpoint of one driver. A driver has two for a while when a new version takes over from an old one."""

    driver: str
    endpoint: str  # empty for a driver inside this process
    owner: int  # the user who owns its registration socket
    channel: DriverChannel
    transitions: tuple[OfferedTransition, ...]

    def covers(self, start: str, end: str) -> bool:
        """Whether it offers such a transition."""
        return any((offered.start, offered.end) == (start, end) for offered in self.transitions)


class DriverDirectory:
    """The registrations of drivers. It notifies its listeners of changes."""

    def __init__(self) -> None:
        self._registrations: list[Registration] = []  # the oldest first
        self._unreachable: dict[Registration, Unreachable] = {}  # of those that do not answer
        self._listeners: list[Callable[[], None]] = []
        self._traits: dict[str, DriverTraits] = {}

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a listener after every change; returns the function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def add(self, registration: Registration) -> None:
        """Add a registration."""
        self._registrations.append(registration)
        self._notify()

    def remove(self, registration: Registration) -> None:
        """Remove a registration. Calls in progress continue."""
        self._registrations.remove(registration)
        self._unreachable.pop(registration, None)
        self._notify()

    def mark_unreachable(self, registration: Registration, unreachable: Unreachable) -> None:
        """Mark a registration as unreachable: it is not called until it answers. The time of the first report stays."""
        if registration not in self._registrations:
            return
        known = self._unreachable.get(registration)
        self._unreachable[registration] = unreachable = Unreachable(
            known.since if known else unreachable.since, unreachable.error
        )
        if unreachable != known:
            self._notify()

    def answered(self, registration: Registration) -> None:
        """Mark a registration as reachable."""
        if self._unreachable.pop(registration, None) is not None:
            self._notify()

    @property
    def unresponsive(self) -> Sequence[Registration]:
        """The registrations that do not answer, the oldest first."""
        return [one for one in self._registrations if one in self._unreachable]

    def unreachable(self) -> Mapping[str, Unreachable]:
        """The drivers without a registration that answers: since when, and the last error."""
        reachable = {one.driver for one in self._registrations if one not in self._unreachable}
        found: dict[str, Unreachable] = {}
        for one in self.unresponsive:
            if one.driver not in reachable:
                found.setdefault(one.driver, self._unreachable[one])
        return found

    def of_driver(self, driver: str) -> Sequence[Registration]:
        """The registrations of one driver, the newest first."""
        return [one for one in reversed(self._registrations) if one.driver == driver]

    def able_to(self, driver: str, start: str, end: str) -> Sequence[Registration]:
        """The registrations of one driver that answer and offer such a transition, the newest first."""
        return [one for one in self.of_driver(driver) if one not in self._unreachable and one.covers(start, end)]

    def drivers(self) -> Drivers:
        """The offers of each driver, without the registrations that do not answer."""
        covered: dict[str, set[tuple[str, str]]] = {}
        for one in self._registrations:
            if one in self._unreachable:
                continue
            pairs = covered.setdefault(one.driver, set())
            pairs.update((offered.start, offered.end) for offered in one.transitions)
        return {driver: frozenset(pairs) for driver, pairs in covered.items()}

    def declare(self, driver: str, traits: DriverTraits) -> None:
        """Declare a driver of this process, which registers later."""
        self._traits[driver] = traits
        self._notify()

    @property
    def traits(self) -> Mapping[str, DriverTraits]:
        """What differs for drivers of this process, by driver name."""
        return self._traits

    def _notify(self) -> None:
        for listener in tuple(self._listeners):
            listener()
