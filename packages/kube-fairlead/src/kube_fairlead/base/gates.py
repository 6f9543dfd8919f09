"""Feature gates: what a proposal adds can be switched off, and then the behaviour is the one before it.

Upstream: k8s.io/component-base@v0.36.4/featuregate/feature_gate.go
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType

__all__ = [
    "CONTROLLER_MANAGER_RELEASE_LEADER_ELECTION_LOCK_ON_EXIT",
    "GATES",
    "GRACEFUL_LEADER_TRANSITION",
    "GRACEFUL_NODE_SHUTDOWN",
    "SPECIALIZED_LIFECYCLE_MANAGEMENT",
    "WINDOWS_GRACEFUL_NODE_SHUTDOWN",
    "FeatureGates",
    "Gate",
    "GateError",
    "Stage",
]


class Stage(enum.StrEnum):
    """How far a feature has come."""

    ALPHA = "ALPHA"  # may change or go
    BETA = "BETA"  # here to stay, details may change
    GA = "GA"  # part of the product; the gate is locked on and will be removed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One switch. A GA gate is locked: it can be named, but not turned to the other side."""

    name: str
    stage: Stage
    default: bool
    needs: tuple[str, ...] = ()

    @property
    def locked(self) -> bool:
        """Whether the gate cannot be changed."""
        return self.stage is Stage.GA


class GateError(ValueError):
    """Raised when a feature gate is unknown, misspelt, locked, or on without what it needs."""


SPECIALIZED_LIFECYCLE_MANAGEMENT = "SpecializedLifecycleManagement"
GRACEFUL_NODE_SHUTDOWN = "GracefulNodeShutdown"
WINDOWS_GRACEFUL_NODE_SHUTDOWN = "WindowsGracefulNodeShutdown"
CONTROLLER_MANAGER_RELEASE_LEADER_ELECTION_LOCK_ON_EXIT = "ControllerManagerReleaseLeaderElectionLockOnExit"
GRACEFUL_LEADER_TRANSITION = "GracefulLeaderTransition"

GATES: tuple[Gate, ...] = (
    Gate(name=SPECIALIZED_LIFECYCLE_MANAGEMENT, stage=Stage.ALPHA, default=True),
    Gate(name=GRACEFUL_NODE_SHUTDOWN, stage=Stage.BETA, default=True),
    Gate(
        name=WINDOWS_GRACEFUL_NODE_SHUTDOWN,
        stage=Stage.BETA,
        default=True,
        needs=(GRACEFUL_NODE_SHUTDOWN,),
    ),
    Gate(name=CONTROLLER_MANAGER_RELEASE_LEADER_ELECTION_LOCK_ON_EXIT, stage=Stage.ALPHA, default=True),
    Gate(name=GRACEFUL_LEADER_TRANSITION, stage=Stage.ALPHA, default=True),
)


class FeatureGates:
    """Which gates are on in this process. Immutable: a gate never changes under a running component.

    A gate left at its default follows what it needs: with the need off, it is off too. A gate that the user turned
    on by name while its need is off is a contradiction and an error.
    """

    def __init__(self, overrides: Mapping[str, bool] | None = None, *, gates: Iterable[Gate] = GATES) -> None:
        self._gates = {gate.name: gate for gate in gates}
        self._overrides = dict(overrides or {})
        for name, wanted in self._overrides.items():
            gate = self._gate(name)
            if gate.locked and wanted is not gate.default:
                raise GateError(
                    f"cannot set feature gate {name} to {_word(wanted)}, feature is locked to {_word(gate.default)}"
                )
        self._enabled = MappingProxyType({name: self._resolve(gate) for name, gate in self._gates.items()})

    @classmethod
    def parse(cls, flag: str, *, gates: Iterable[Gate] = GATES) -> FeatureGates:
        """Read the value of `--feature-gates`, e.g. `GracefulNodeShutdown=true,GracefulLeaderTransition=false`.

        Raises:
            GateError: the text names no known gate, or no boolean, or changes a locked gate.
        """
        overrides: dict[str, bool] = {}
        for part in filter(None, (part.strip() for part in flag.split(","))):
            name, separator, value = (piece.strip() for piece in part.partition("="))
            if not separator:
                raise GateError(f"missing bool value for feature gate {name}; write {name}=true or {name}=false")
            if value.lower() not in _BOOLEANS:
                raise GateError(f"invalid value {value!r} for feature gate {name}; use true or false")
            overrides[name] = _BOOLEANS[value.lower()]
        return cls(overrides, gates=gates)

    def enabled(self, name: str) -> bool:
        """Is this gate on?"""
        self._gate(name)
        return self._enabled[name]

    def as_mapping(self) -> Mapping[str, bool]:
        """Every gate and its state, in the order of the table."""
        return self._enabled

    def _gate(self, name: str) -> Gate:
        try:
            return self._gates[name]
        except KeyError:
            known = ", ".join(sorted(self._gates))
            raise GateError(f"unrecognized feature gate: {name}; known gates are {known}") from None

    def _resolve(self, gate: Gate) -> bool:
        if not self._overrides.get(gate.name, gate.default):
            return False
        off = [need for need in gate.needs if not self._resolve(self._gate(need))]
        if off and gate.name in self._overrides:
            raise GateError(f"{gate.name} is enabled, but depends on features that are disabled: {', '.join(off)}")
        return not off


_BOOLEANS = MappingProxyType({"true": True, "1": True, "t": True, "false": False, "0": False, "f": False})


def _word(value: bool) -> str:  # noqa: FBT001 - a value to be spelt, not a switch
    return "true" if value else "false"
