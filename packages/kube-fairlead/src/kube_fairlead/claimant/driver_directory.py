"""The drivers that are registered on this node, which of them answer, and how to call them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from kube_fairlead.driverapi.channels import DriverChannel
from kube_fairlead.driverapi.messages import OfferedTransition
from kube_fairlead.lifecycle.claims import Drivers
from kube_fairlead.lifecycle.facts import DriverTraits, Silence

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
        """Whether it carries out such a transition."""
        return any((offered.start, offered.end) == (start, end) for offered in self.transitions)


class DriverDirectory:
    """Who is registered. Tells whoever wants to know when that changes."""

    def __init__(self) -> None:
        self._registrations: list[Registration] = []  # in the order in which they came
        self._silences: dict[Registration, Silence] = {}  # of those that do not answer
        self._listeners: list[Callable[[], None]] = []
        self._traits: dict[str, DriverTraits] = {}

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have this called after every change; call the answer to have that no more."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def add(self, registration: Registration) -> None:
        """A driver is there."""
        self._registrations.append(registration)
        self._tell()

    def remove(self, registration: Registration) -> None:
        """It is not there any more. Calls under way are not touched."""
        self._registrations.remove(registration)
        self._silences.pop(registration, None)
        self._tell()

    def silent(self, registration: Registration, silence: Silence) -> None:
        """It does not answer. It is not called until it does; since when stays as it was first said."""
        if registration not in self._registrations:
            return
        known = self._silences.get(registration)
        self._silences[registration] = silence = Silence(known.since if known else silence.since, silence.error)
        if silence != known:
            self._tell()

    def answered(self, registration: Registration) -> None:
        """It answers again."""
        if self._silences.pop(registration, None) is not None:
            self._tell()

    @property
    def mute(self) -> Sequence[Registration]:
        """Those that do not answer, in the order in which they came."""
        return [one for one in self._registrations if one in self._silences]

    def silences(self) -> Mapping[str, Silence]:
        """The drivers of which no registration answers: since when, and the last error."""
        talking = {one.driver for one in self._registrations if one not in self._silences}
        found: dict[str, Silence] = {}
        for one in self.mute:
            if one.driver not in talking:
                found.setdefault(one.driver, self._silences[one])
        return found

    def of_driver(self, driver: str) -> Sequence[Registration]:
        """The registrations of one driver, the newest first."""
        return [one for one in reversed(self._registrations) if one.driver == driver]

    def able_to(self, driver: str, start: str, end: str) -> Sequence[Registration]:
        """Those of one driver that answer and carry out such a transition, the newest first."""
        return [one for one in self.of_driver(driver) if one not in self._silences and one.covers(start, end)]

    def drivers(self) -> Drivers:
        """Which driver covers what, as decisions want to know it, without the registrations that do not answer."""
        covered: dict[str, set[tuple[str, str]]] = {}
        for one in self._registrations:
            if one in self._silences:
                continue
            pairs = covered.setdefault(one.driver, set())
            pairs.update((offered.start, offered.end) for offered in one.transitions)
        return {driver: frozenset(pairs) for driver, pairs in covered.items()}

    def declare(self, driver: str, traits: DriverTraits) -> None:
        """Declare a driver of this process, which registers later."""
        self._traits[driver] = traits
        self._tell()

    @property
    def traits(self) -> Mapping[str, DriverTraits]:
        """What differs for drivers of this process, by driver name."""
        return self._traits

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
