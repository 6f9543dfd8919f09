"""The plan of a seed: all actions with their times, drawn before the run, so that it can be replayed and shrunk."""

from __future__ import annotations

import dataclasses
import math
import zlib
from typing import Final

import msgspec

from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_lab.sim.scenario import Scenario

__all__ = ["FAULTS", "Action", "plan"]

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
"""Kinds of faults, by the names of their rates in a scenario."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Action:
    """One planned action: its time (seconds after the chaos phase began), its kind, and its own seed."""

    at: float
    kind: str
    seed: int
    number: int = dataclasses.field(default=0, compare=False)  # position in the seed's plan, from 1

    def __str__(self) -> str:
        return f"{self.number:5}  {self.at:9.3f} s  {self.kind}"


def plan(seed: int, scenario: Scenario, steps: int | None = None) -> list[Action]:
    """Return all actions of a seed in order; with `steps` only the first ones.

    Each kind is drawn from its own random stream: a scenario without one kind has the others at the same times.
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
    # The stream depends on the kind's name, so that a new kind does not move the others.
    chance = SeededRandomness(zlib.crc32(f"{seed} {kind}".encode()))
    actions: list[Action] = []
    at = 0.0
    while per_minute > 0:
        # Independent actions with a rate per minute have exponentially distributed pauses.
        at += -math.log(1.0 - chance.random()) * 60 / per_minute
        if at >= scenario.chaos_minutes * 60:
            break
        actions.append(Action(at, kind, int(chance.random() * 2**53)))
    return actions
