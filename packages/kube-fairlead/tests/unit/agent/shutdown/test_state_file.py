from __future__ import annotations

import datetime as dt
import pathlib

import pytest

from kube_fairlead.agent.shutdown.state_file import EndedPod, ShutdownState, StateFile
from kube_fairlead.lifecycle.shutdown_config import Period
from kube_fairlead.lifecycle.shutdown_plan import ActiveGroup
from kube_fairlead.lifecycle.shutdown_recovery import ShutdownEvidence
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd

START = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
STATE = ShutdownState(
    boot_id="b",
    start_time=START,
    start_monotonic=1000.5,
    owner="agent",
    periods=(Period(0, 20), Period(2000000000, 10)),
    stage=ActiveGroup(0, 20, 0.25, 20.0),
    ended=(EndedPod(uid="u", namespace="n", name="p", containers={"c": ContainerEnd(137, START)}),),
    outcomes={"ended": 1},
)


def test_what_is_saved_is_remembered_and_can_be_forgotten(tmp_path: pathlib.Path) -> None:
    memory = StateFile(tmp_path / "state")
    assert memory.load() is None
    memory.save(STATE)
    assert StateFile(tmp_path / "state").load() == STATE
    memory.clear()
    memory.clear()
    assert memory.load() is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"bootId": 5}', b"\xff\xfe"])
def test_a_file_that_makes_no_sense_is_put_aside(tmp_path: pathlib.Path, content: bytes) -> None:
    memory = StateFile(tmp_path)
    memory.path.write_bytes(content)
    assert memory.load() is None
    assert not memory.path.exists()
    assert memory.path.with_suffix(".broken").read_bytes() == content


def test_a_crash_in_the_middle_of_a_write_leaves_the_old_state(tmp_path: pathlib.Path) -> None:
    memory = StateFile(tmp_path)
    memory.save(STATE)
    memory.path.with_name(f".{memory.path.name}.new").write_bytes(b"{half")
    assert memory.load() == STATE
    memory.save(STATE)
    assert memory.load() == STATE


@pytest.mark.parametrize(
    ("boot_id", "wall_seconds", "monotonic", "elapsed"),
    [
        ("b", 3600, 1007.5, 7.0),  # the wall clock jumped; the machine's own counts
        ("other", 300, 12.0, 300.0),
        ("b", 300, 12.0, 300.0),  # a monotonic clock that went back is none
        ("other", -300, 12.0, 0.0),
    ],
)
def test_time_since_the_beginning_is_the_machines_own_where_it_can_be(
    boot_id: str, wall_seconds: int, monotonic: float, elapsed: float
) -> None:
    now = START + dt.timedelta(seconds=wall_seconds)
    assert STATE.elapsed(boot_id=boot_id, now=now, monotonic=monotonic) == elapsed


def test_it_is_a_witness() -> None:
    assert STATE.evidence() == ShutdownEvidence(START, "b", complete=False)
