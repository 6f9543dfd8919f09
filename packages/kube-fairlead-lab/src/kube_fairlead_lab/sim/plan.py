"""What will go wrong and when: drawn before anything begins, so that it can be read, replayed and cut down."""

from __future__ import annotations

import dataclasses
import math
import zlib
from typing import Final

import msgspec

from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_lab.sim.scenario import Scenario

__all__ = ["FAULTS", "USER_ACTIONS", "Action", "plan"]

FAULTS: Final = (
    "server_crash",
    "disk_full",
    "disk_slow",
    "agent_crash",
    "manager_crash",
    "manager_yield",
    "cloud_manager_crash",
    "driver_death",
    "driver_gone",
    "driver_release",
    "transition_deleted",
    "kubelet_crash",
    "machine_shutdown",
    "machine_disk_full",
    "pause",
    "partition",
    "driver_partition",
    "cloud_partition",
    "clock_jump",
    "cloud_silence",
    "cloud_empty",
    "cloud_wrong",
    "cloud_late",
    "cloud_confused",
    "node_annotated",
    "machine_gone",
    "node_recreated",
    "finalizer_removed",
    "deadline_rewritten",
    "power_loss",
)
"""By the names of their rates in a scenario."""

USER_ACTIONS: Final = ("event_wanted", "event_unwanted", "thing_touched", "maintenance_wanted")
"""What users do all day. No faults."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Action:
    """One thing that happens: when (seconds after the weather turned), what, and the seed of its own choices."""

    at: float
    kind: str
    seed: int
    number: int = dataclasses.field(default=0, compare=False)  # among all that the seed stands for, from 1

    def __str__(self) -> str:
        return f"{self.number:5}  {self.at:9.3f} s  {self.kind}"


def plan(seed: int, scenario: Scenario, steps: int | None = None) -> list[Action]:
    """Everything that happens to one world, in order; with `steps` only so many of them.

    Each kind is drawn from a stream of its own: a scenario without one kind has all others at the same moments.
    """
    faults = msgspec.structs.asdict(scenario.faults)
    rates = {kind: faults[kind] for kind in FAULTS}
    rates["event_wanted"] = scenario.events_per_minute
    rates["event_unwanted"] = scenario.events_per_minute / 10
    rates["thing_touched"] = scenario.things_per_minute
    rates["maintenance_wanted"] = scenario.maintenances_per_minute
    actions = [action for kind, rate in rates.items() for action in _stream(seed, kind, rate, scenario)]
    return [dataclasses.replace(action, number=number) for number, action in enumerate(sorted(actions), 1)][:steps]


def _stream(seed: int, kind: str, per_minute: float, scenario: Scenario) -> list[Action]:
    # By its name: a kind that is new some day leaves the others where they were.
    chance = SeededRandomness(zlib.crc32(f"{seed} {kind}".encode()))
    actions: list[Action] = []
    at = 0.0
    while per_minute > 0:
        # Things that happen independently, so often per minute, come after exponentially long pauses.
        at += -math.log(1.0 - chance.random()) * 60 / per_minute
        if at >= scenario.chaos_minutes * 60:
            break
        actions.append(Action(at, kind, int(chance.random() * 2**53)))
    return actions
