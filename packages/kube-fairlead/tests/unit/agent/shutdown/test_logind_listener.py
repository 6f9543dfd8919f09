from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import Callable

import pytest

from kube_fairlead.agent.shutdown.logind_listener import LogindListener, LogindPlaces
from kube_fairlead.base.clock import RealClock
from tests.unit.agent.shutdown.fakelogind import FakeLogind, private_bus


class Keeper:
    """Keeps what it is given, as systemd does."""

    def __init__(self, kept: int | None = None) -> None:
        self.kept = kept

    def recall(self) -> int | None:
        return None if self.kept is None else os.dup(self.kept)

    def keep(self, lock: int) -> None:
        self.kept = os.dup(lock)

    def drop(self) -> None:
        if self.kept is not None:
            os.close(self.kept)
        self.kept = None


def an_ear(bus: str, folder: pathlib.Path, keeper: Keeper | None = None) -> LogindListener:
    places = LogindPlaces(bus_address=bus, drop_ins=folder / "logind.conf.d")
    return LogindListener(RealClock(), keeper, places)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - another process's doing has no event
            await asyncio.sleep(0.01)


async def word(ear: LogindListener) -> bool:
    async with asyncio.timeout(30):
        return await ear.next_word()


async def test_the_machine_waits_for_us_and_goes_when_it_is_let_go(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    ear = an_ear(bus, short_path)
    async with ear.running(5):
        assert not ear.preparing
        assert ear.problem == ""
        assert logind.holders() == ["fairlead-agent"]
        await logind.announce(True)
        assert await word(ear) is True
        await ear.release()
        assert logind.holders() == []
    assert "KillUnit" not in logind.calls


async def test_a_delay_that_is_too_short_is_raised(bus: str, logind: FakeLogind, short_path: pathlib.Path) -> None:
    ear = an_ear(bus, short_path)
    async with ear.running(29.5):
        assert ear.problem == ""
        assert logind.delay_usec == 30_000_000
    written = short_path / "logind.conf.d" / "99-z-fairlead.conf"
    assert written.read_text().endswith("[Login]\nInhibitDelayMaxSec=30\n")
    assert written.stat().st_mode & 0o777 == 0o644


async def test_the_lock_is_held_before_logind_is_told_to_wait_longer(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    async with an_ear(bus, short_path).running(30):
        assert logind.held_at_reload == ["fairlead-agent"]
        assert logind.holders() == ["fairlead-agent"]


async def test_a_lock_that_does_not_outlive_the_reload_is_taken_anew(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    logind.forgets_at_reload = True
    ear = an_ear(bus, short_path)
    async with ear.running(30):
        assert logind.holders() == ["fairlead-agent"]
        assert ear.problem == ""


async def test_a_lock_that_is_refused_is_asked_for_again(
    bus: str, logind: FakeLogind, short_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, and after a shutdown that was called off."""
    monkeypatch.setattr("kube_fairlead.agent.shutdown.logind_listener._AGAIN_FIRST_SECONDS", 0.05)
    logind.refuses_locks = 3
    ear = an_ear(bus, short_path)
    async with ear.running(5):
        assert "Permission denied" in ear.problem
        await until(lambda: logind.holders() == ["fairlead-agent"])
        await until(lambda: not ear.problem)
        await logind.announce(True)
        assert await word(ear) is True
        await ear.release()
        logind.refuses_locks = 3
        await logind.announce(False)
        assert await word(ear) is False
        await until(lambda: logind.holders() == ["fairlead-agent"])
        await until(lambda: not ear.problem)
    assert logind.refuses_locks == 0


async def test_a_logind_that_refuses_is_reported_and_held_up_all_the_same(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    logind.obeys_reload = False
    ear = an_ear(bus, short_path)
    async with ear.running(30):
        assert "logind waits 5 s at most and pods may need 30 s" in ear.problem
        assert "5 attempts" in ear.problem
        assert logind.holders() == ["fairlead-agent"]


async def test_a_reload_that_is_not_allowed_is_reported_and_the_lock_is_held_all_the_same(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    logind.refuses_reload = True
    ear = an_ear(bus, short_path)
    async with ear.running(30):
        assert "logind cannot be told to wait 30 s" in ear.problem
        assert "Access denied" in ear.problem
        assert logind.holders() == ["fairlead-agent"]


async def test_after_a_cancellation_the_machine_waits_for_us_again(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    ear = an_ear(bus, short_path)
    async with ear.running(5):
        for _ in range(2):
            await logind.announce(True)
            assert await word(ear) is True
            await ear.release()
            await logind.announce(False)
            assert await word(ear) is False
            await until(lambda: logind.holders() == ["fairlead-agent"])


async def test_an_agent_that_starts_in_the_middle_knows_and_has_the_lock_of_the_one_before(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    keeper = Keeper()
    async with an_ear(bus, short_path, keeper).running(5):
        await logind.announce(True)
    assert logind.holders() == ["fairlead-agent"]  # the keeper's copy
    second = an_ear(bus, short_path, keeper)
    async with second.running(5):
        assert second.preparing is True
        assert second.problem == ""
        assert second.holds_lock
        await second.release()
        assert logind.holders() == []


async def test_without_a_keeper_the_lock_is_lost_and_that_is_said(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    async with an_ear(bus, short_path).running(5):
        await logind.announce(True)
    second = an_ear(bus, short_path)
    async with second.running(5):
        assert second.preparing is True
        assert "the shutdown lock was lost" in second.problem


async def test_a_lock_that_logind_does_not_know_any_more_is_taken_anew(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    reading, writing = os.pipe()
    ear = an_ear(bus, short_path, Keeper(writing))
    async with ear.running(5):
        assert logind.holders() == ["fairlead-agent"]
    os.close(reading)


async def test_a_restart_of_logind_is_survived_and_nothing_is_missed(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    ear = an_ear(bus, short_path)
    async with ear.running(5):
        asked = logind.calls.count("ListInhibitors")
        await logind.restart()
        await until(lambda: logind.calls.count("ListInhibitors") > asked)
        assert logind.holders() == ["fairlead-agent"]
        logind.preparing = True  # announced while it was not there to be heard
        await logind.restart()
        assert await word(ear) is True


async def test_the_loss_of_the_bus_is_survived(short_path: pathlib.Path) -> None:
    logind = FakeLogind()
    places = short_path
    with private_bus(places) as address:
        ear = an_ear(address, places)
        async with logind.on(address):
            running = ear.running(5)
            await running.__aenter__()
            assert ear.preparing is False
    await until(lambda: ear.problem)
    logind.preparing = True
    with private_bus(places) as address:
        async with logind.on(address):
            assert await word(ear) is True
            await until(lambda: not ear.problem)
            assert ear.holds_lock
        await running.__aexit__(None, None, None)
    logind.close()


async def test_without_a_bus_nobody_can_tell(short_path: pathlib.Path) -> None:
    ear = an_ear(f"unix:path={short_path}/nobody", short_path)
    async with ear.running(5):
        assert ear.preparing is None
        assert "cannot reach the system bus" in ear.problem


async def test_a_logind_that_is_there_late_says_that_the_machine_does_not_go_down(short_path: pathlib.Path) -> None:
    """Whoever began without it may have believed something else."""
    logind = FakeLogind()
    ear = an_ear(f"unix:path={short_path / 'bus'}", short_path)
    async with ear.running(5):
        assert ear.preparing is None
        with private_bus(short_path) as address:
            async with logind.on(address):
                assert await word(ear) is False
                await until(lambda: ear.holds_lock)
    logind.close()


@pytest.mark.parametrize("body", [[], ["yes"]])
def test_a_signal_that_says_nothing_is_not_heard(body: list[object]) -> None:
    from kube_fairlead.agent.shutdown.logind_listener import _announced

    signals: asyncio.Queue[bool | None] = asyncio.Queue()
    _announced(signals, body)
    assert signals.empty()
