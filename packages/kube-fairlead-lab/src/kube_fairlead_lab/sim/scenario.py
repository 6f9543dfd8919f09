"""Scenario files: cluster sizes and fault rates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from kube_fairlead.api.yamltext import parser

__all__ = ["Faults", "NetworkFaults", "Scenario", "ScenarioError", "read_scenario"]

_Chance = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_Minutes = Annotated[float, msgspec.Meta(gt=0, le=10_000)]
_Rate = Annotated[float, msgspec.Meta(ge=0, le=6000)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class ScenarioError(ValueError):
    """A scenario file is invalid. The message names the file, the field and the problem."""


class NetworkFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Probabilities per request; 0.01 is one in a hundred."""

    request_lost: _Chance = 0.004
    answer_lost: _Chance = 0.006
    answer_409: _Chance = 0.002
    answer_429: _Chance = 0.003
    answer_500: _Chance = 0.003
    answer_503: _Chance = 0.003
    slow: _Chance = 0.004


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Average rates per virtual minute, for the whole cluster."""

    server_crash: _Rate = 0.6
    disk_full: _Rate = 0.2
    disk_slow: _Rate = 0.2
    agent_crash: _Rate = 2.0
    manager_crash: _Rate = 0.6
    manager_yield: _Rate = 0.5
    cloud_manager_crash: _Rate = 0.5
    pause: _Rate = 0.6
    partition: _Rate = 0.8
    driver_partition: _Rate = 0.5
    cloud_partition: _Rate = 0.4
    clock_jump: _Rate = 0.5
    driver_death: _Rate = 0.8
    driver_gone: _Rate = 0.5
    driver_release: _Rate = 0.4
    transition_deleted: _Rate = 0.5
    kubelet_crash: _Rate = 0.3
    machine_shutdown: _Rate = 0.8
    machine_disk_full: _Rate = 0.2
    cloud_silence: _Rate = 0.3
    cloud_empty: _Rate = 0.3
    cloud_wrong: _Rate = 0.4
    cloud_late: _Rate = 0.3
    cloud_confused: _Rate = 0.3
    node_annotated: _Rate = 0.4
    machine_gone: _Rate = 0.2
    node_recreated: _Rate = 0.3
    finalizer_removed: _Rate = 0.2
    deadline_rewritten: _Rate = 0.4
    power_loss: _Rate = 0.3


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cluster sizes, durations and fault rates. The seed decides the rest."""

    nodes: _Count = 5
    managers: _Count = 3
    chaos_minutes: _Minutes = 3.0
    calm_minutes: _Minutes = 15.0
    events_per_minute: _Rate = 14.0
    things_per_minute: _Rate = 6.0
    maintenances_per_minute: _Rate = 0.5
    driver_wait_seconds: _Seconds = 60.0  # the agents' --driver-wait-timeout
    network: NetworkFaults | None = NetworkFaults()  # null: no network faults
    faults: Faults = Faults()


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file (YAML).

    Raises:
        ScenarioError: the file is not a valid scenario.
    """
    try:
        return msgspec.convert(parser.read(path.read_bytes()) or {}, Scenario)
    except (OSError, parser.YamlError, msgspec.ValidationError) as error:
        raise ScenarioError(f"--scenario {path}: {error}") from error
