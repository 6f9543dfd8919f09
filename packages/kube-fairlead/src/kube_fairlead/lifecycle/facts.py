"""The input of a claimant's decisions: a snapshot of one node, and the results of its own driver calls."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from kube_fairlead.api import time as api_time
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition, PodOutcome, Progress
from kube_fairlead.lifecycle.claims import Drivers

__all__ = [
    "IDLE",
    "Calling",
    "DriverTraits",
    "Ended",
    "Facts",
    "Idle",
    "Offer",
    "Precedence",
    "Refused",
    "Run",
    "Settings",
    "Started",
    "Unreachable",
]

Offer = tuple[str, str, str]
"""A driver by name, and the start and end state of one transition that it offers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unreachable:
    """A driver does not answer: since when, and the last error, empty if the event has it."""

    since: dt.datetime
    error: str

    def describe(self, driver: str) -> str:
        """The sentence that users read in the event's message."""
        return f"driver {driver} unreachable since {api_time.format_time(self.since)}: {self.error}"


@dataclasses.dataclass(frozen=True, slots=True)
class Idle:
    """This process has no call for the event in progress, and no answer to one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Calling:
    """A call to the driver is in progress. It is repeated while the driver is unreachable: since when, and why."""

    unreachable: Unreachable | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """The driver's Start returned."""

    at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """The driver reached the end state. A driver inside this process may add a message."""

    at: dt.datetime
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """The driver failed, with a reason. The call is not repeated."""

    at: dt.datetime
    message: str


Run = Idle | Calling | Started | Ended | Refused
IDLE = Idle()
_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DriverTraits:
    """What differs for a driver inside this process. It is known before the driver registers."""

    # The driver writes the node's conditions itself, because the node must show them with or without a claim.
    writes_conditions: bool = False
    # The driver reports after a restart of the machine how its event ended, although the deadline may have passed.
    survives_reboot: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Precedence:
    """The events of one driver go before all others of the node: claimed ones fail, and no other is claimed."""

    driver: str
    why: str  # the others' message, such as "node is shutting down"
    event_name: str = ""  # the event that the driver carries out in this boot
    deadline: dt.datetime | None = None  # of an event of the driver, where its transition has no sla


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of an administrator."""

    driver_wait: dt.timedelta = dt.timedelta(minutes=5)
    driver_lost: dt.timedelta = dt.timedelta(minutes=10)  # how long a claim without an SLA waits for a lost driver
    keep_finished: dt.timedelta = dt.timedelta(0)
    well_known_conditions: bool = True
    hold_autoscalers: bool = True
    leave_to_others: bool = False  # leave an event that cannot be claimed here, instead of failing it after a wait


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The input of a decision beside the event itself and the time."""

    claimant: str
    holds_lease: bool
    node: Node | None
    events: tuple[LifecycleEvent, ...] = ()  # all that are bound to the node
    transitions: Mapping[str, LifecycleTransition] = dataclasses.field(default_factory=dict)  # by name
    drivers: Drivers = dataclasses.field(default_factory=dict)  # without those that do not answer
    unreachable: Mapping[str, Unreachable] = dataclasses.field(
        default_factory=dict
    )  # registered, but do not answer, by name
    unasked: frozenset[Offer] = frozenset()  # must answer a probe before an event is claimed for them
    asked: frozenset[Offer] = frozenset()  # a probe is in progress
    # From when on an unregistered driver counts as missing: after the start of the process, and after a driver has
    # left, it has time to register.
    drivers_known_at: dt.datetime = _LONG_AGO
    returning: Mapping[str, dt.datetime] = dataclasses.field(default_factory=dict)  # the same, of one driver
    runs: Mapping[str, Run] = dataclasses.field(default_factory=dict)  # by event uid
    progress: Mapping[str, Progress] = dataclasses.field(default_factory=dict)  # reported, not stored yet, by event uid
    pods: Mapping[str, tuple[PodOutcome, ...]] = dataclasses.field(default_factory=dict)  # as `progress`
    recorded: frozenset[str] = frozenset()  # finished events whose entry is in the node's record, by uid
    refused: frozenset[str] = frozenset()  # events whose writes the server rejects, by uid
    settings: Settings = dataclasses.field(default_factory=Settings)
    precedence: Precedence | None = None
    traits: Mapping[str, DriverTraits] = dataclasses.field(default_factory=dict)  # by driver name

    def run_of(self, event: LifecycleEvent) -> Run:
        """The state of this process's driver call for an event."""
        return self.runs.get(event.uid, IDLE)

    def interruption_of(self, event: LifecycleEvent) -> str:
        """Why an event may not continue: another driver has precedence. Empty: it may."""
        transition = self.transitions.get(event.spec.transition_name)
        driver = event.status.driver or ("" if transition is None else transition.spec.driver)
        return "" if self.precedence is None or self.precedence.driver == driver else self.precedence.why

    def deadline_of(self, driver: str) -> dt.datetime | None:
        """The deadline of a driver's event that is claimed now, if its transition has no sla."""
        return self.precedence.deadline if self.precedence is not None and self.precedence.driver == driver else None

    def deadline_for_driver(self, event: LifecycleEvent) -> dt.datetime | None:
        """When the claimant ends a call for a claimed event; None: never.

        The deadline limits what a driver does in this boot. It does not limit the answer about an earlier boot.
        """
        is_current = self.precedence is not None and self.precedence.event_name == event.name
        return None if self._traits_of(event).survives_reboot and not is_current else event.status.sla

    def holds_autoscalers(self, event: LifecycleEvent) -> bool:
        """Whether autoscalers leave the node alone while the event is carried out.

        A machine that goes down may never return, and then no claimant can remove the annotations: an autoscaler would
        keep a dead node for ever.
        """
        return self.settings.hold_autoscalers and not self._traits_of(event).survives_reboot

    def driver_writes_conditions(self, event: LifecycleEvent) -> bool:
        """Whether the claimant leaves the node's conditions to the driver of a claimed event."""
        return self._traits_of(event).writes_conditions

    def _traits_of(self, event: LifecycleEvent) -> DriverTraits:
        return self.traits.get(event.status.driver, DriverTraits())

    def is_calling_for_another(self, event: LifecycleEvent) -> bool:
        """Whether a driver still works on another event, which may be finished or deleted by now."""
        return any(isinstance(run, Calling) for uid, run in self.runs.items() if uid != event.uid)
