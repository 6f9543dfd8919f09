from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base import gates
from kube_fairlead.base.gates import FeatureGates, Gate, GateError, Stage

MADE_UP = (
    Gate(name="Old", stage=Stage.GA, default=True),
    Gate(name="Ground", stage=Stage.BETA, default=True),
    Gate(name="Floor", stage=Stage.BETA, default=True, needs=("Ground",)),
    Gate(name="Roof", stage=Stage.ALPHA, default=False, needs=("Floor",)),
)


def test_the_five_gates_of_the_proposals_are_on() -> None:
    assert dict(FeatureGates().as_mapping()) == {
        "SpecializedLifecycleManagement": True,
        "GracefulNodeShutdown": True,
        "WindowsGracefulNodeShutdown": True,
        "ControllerManagerReleaseLeaderElectionLockOnExit": True,
        "GracefulLeaderTransition": True,
    }


def test_needs_name_gates_that_exist() -> None:
    names = {gate.name for gate in gates.GATES}
    assert {need for gate in gates.GATES for need in gate.needs} <= names
    assert len(names) == len(gates.GATES)


@pytest.mark.parametrize(
    ("flag", "off"),
    [
        ("", set()),
        ("GracefulLeaderTransition=false", {"GracefulLeaderTransition"}),
        (" GracefulLeaderTransition = FALSE , ", {"GracefulLeaderTransition"}),
        ("GracefulLeaderTransition=false,GracefulLeaderTransition=true", set()),
        ("GracefulNodeShutdown=false", {"GracefulNodeShutdown", "WindowsGracefulNodeShutdown"}),
        ("WindowsGracefulNodeShutdown=0", {"WindowsGracefulNodeShutdown"}),
        (
            "GracefulNodeShutdown=f,WindowsGracefulNodeShutdown=f",
            {"GracefulNodeShutdown", "WindowsGracefulNodeShutdown"},
        ),
    ],
)
def test_parse(flag: str, off: set[str]) -> None:
    assert {name for name, on in FeatureGates.parse(flag).as_mapping().items() if not on} == off


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("Nope=true", "unrecognized feature gate: Nope; known gates are ControllerManagerRelease"),
        ("GracefulNodeShutdown", "missing bool value for feature gate GracefulNodeShutdown"),
        ("GracefulNodeShutdown=", "invalid value '' for feature gate GracefulNodeShutdown"),
        ("GracefulNodeShutdown=maybe", "invalid value 'maybe' for feature gate GracefulNodeShutdown"),
        (
            "GracefulNodeShutdown=false,WindowsGracefulNodeShutdown=true",
            "WindowsGracefulNodeShutdown is enabled, but depends on features that are disabled: GracefulNodeShutdown",
        ),
    ],
)
def test_mistakes_are_explained(flag: str, message: str) -> None:
    with pytest.raises(GateError, match=message):
        FeatureGates.parse(flag)


def test_an_unknown_gate_lists_every_known_one() -> None:
    with pytest.raises(GateError) as caught:
        FeatureGates().enabled("Nope")
    assert all(gate.name in str(caught.value) for gate in gates.GATES)


def test_a_ga_gate_is_locked() -> None:
    assert FeatureGates.parse("Old=true", gates=MADE_UP).enabled("Old")
    with pytest.raises(GateError, match="cannot set feature gate Old to false, feature is locked to true"):
        FeatureGates.parse("Old=false", gates=MADE_UP)


def test_needs_are_followed_all_the_way_down() -> None:
    assert FeatureGates({"Roof": True}, gates=MADE_UP).enabled("Roof")
    with pytest.raises(GateError, match="Roof is enabled, but depends on features that are disabled: Floor"):
        FeatureGates({"Ground": False, "Roof": True}, gates=MADE_UP)


@given(st.dictionaries(st.sampled_from([gate.name for gate in MADE_UP]), st.booleans()))
def test_what_is_on_has_what_it_needs(overrides: dict[str, bool]) -> None:
    try:
        resolved = FeatureGates(overrides, gates=MADE_UP)
    except GateError:
        return
    for gate in MADE_UP:
        if resolved.enabled(gate.name):
            assert all(resolved.enabled(need) for need in gate.needs)
        if gate.name in overrides:
            assert resolved.enabled(gate.name) is overrides[gate.name]


def test_gates_do_not_change_under_a_running_component() -> None:
    overrides = {"GracefulNodeShutdown": False}
    resolved = FeatureGates(overrides)
    overrides["GracefulNodeShutdown"] = True
    assert not resolved.enabled("GracefulNodeShutdown")
    with pytest.raises(TypeError):
        resolved.as_mapping()["GracefulNodeShutdown"] = True  # type: ignore[index] # the attempt under test
