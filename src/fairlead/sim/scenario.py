"""What is simulated and how bad it gets: a file of plain values."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from fairlead.base import yaml_errors

__all__ = ["Faults", "NetworkFaults", "Scenario", "ScenarioError", "read_scenario"]


class ScenarioError(ValueError):
    """A scenario file that cannot be used: which file, which field, what is wrong."""


class NetworkFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often something happens to one request; 0.01 is one in a hundred."""

    request_lost: float = 0.004
    answer_lost: float = 0.006
    answer_409: float = 0.002
    answer_429: float = 0.003
    answer_500: float = 0.003
    answer_503: float = 0.003
    slow: float = 0.004


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each thing happens to the whole world in one virtual minute, on average."""

    server_crash: float = 0.6
    disk_full: float = 0.2
    disk_slow: float = 0.2
    agent_crash: float = 2.0
    manager_crash: float = 0.6
    manager_yield: float = 0.5
    cloud_manager_crash: float = 0.5
    pause: float = 0.6
    partition: float = 0.8
    driver_partition: float = 0.5
    cloud_partition: float = 0.4
    clock_jump: float = 0.5
    driver_death: float = 0.8
    kubelet_crash: float = 0.3
    machine_shutdown: float = 0.8
    machine_disk_full: float = 0.2
    cloud_silence: float = 0.3
    cloud_empty: float = 0.3
    cloud_wrong: float = 0.4
    cloud_late: float = 0.3
    machine_gone: float = 0.2
    node_recreated: float = 0.3
    finalizer_removed: float = 0.2
    power_loss: float = 0.3


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of world. The seed decides everything that is left open here."""

    nodes: int = 5
    managers: int = 3
    chaos_minutes: float = 3.0
    calm_minutes: float = 15.0
    events_per_minute: float = 14.0
    things_per_minute: float = 6.0
    driver_wait_seconds: float = 60.0  # the agents' --driver-wait-timeout
    network: NetworkFaults | None = NetworkFaults()  # null: a network that never fails
    faults: Faults = Faults()


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file (YAML).

    Raises:
        ScenarioError: it is not one.
    """
    try:
        return msgspec.convert(yaml.safe_load(path.read_text("utf-8")) or {}, Scenario)
    except yaml.YAMLError as error:
        raise ScenarioError(f"--scenario {path}: {yaml_errors.problem(error)}") from error
    except (OSError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ScenarioError(f"--scenario {path}: {error}") from error
