from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import Callable

import pytest

from kube_fairlead.agent.shutdown.logind_listener import LogindListener, LogindPlaces
from kube_fairlead.base.clock import RealClock
from tests.unit.agent.shutdown.fakelogind import FakeLogind, private_bus


class FakeLockStore:
    """Keeps what it is given, as systemd does."""

    def __init__(self, kept: int | None = None) -> None:
        self.kept = kept

    def take(self) -> int | None:
        return None if self.kept is None else os.dup(self.kept)

    def store(self, lock: int) -> None:
        self.kept = os.dup(lock)

    def remove(self) -> None:
        if self.kept is not None:
            os.close(self.kept)
        self.kept = None


def a_listener(bus: str, folder: pathlib.Path, lock_store: FakeLockStore | None = None) -> LogindListener:
    places = LogindPlaces(bus_address=bus, drop_ins=folder / "logind.conf.d")
    return LogindListener(RealClock(), lock_store, places)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - another process's doing has no event
            await asyncio.sleep(0.01)


async def announcement(listener: LogindListener) -> bool:
    async with asyncio.timeout(30):
        return await listener.next_announcement()


async def test_logind_waits_until_the_lock_is_released(bus: str, logind: FakeLogind, short_path: pathlib.Path) -> None:
    listener = a_listener(bus, short_path)
    async with listener.running(5):
        assert not listener.preparing
        assert listener.problem == ""
        assert logind.holders() == ["fairlead-agent"]
        await logind.announce(True)
        assert await announcement(listener) is True
        await listener.release()
        assert logind.holders() == []
    assert "KillUnit" not in logind.calls


async def test_a_delay_that_is_too_short_is_raised(bus: str, logind: FakeLogind, short_path: pathlib.Path) -> None:
    listener = a_listener(bus, short_path)
    async with listener.running(29.5):
        assert listener.problem == ""
        assert logind.delay_usec == 30_000_000
    written = short_path / "logind.conf.d" / "99-z-fairlead.conf"
    assert written.read_text().endswith("[Login]\nInhibitDelayMaxSec=30\n")
    assert written.stat().st_mode & 0o777 == 0o644


async def test_the_lock_is_held_before_the_delay_is_raised(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    async with a_listener(bus, short_path).running(30):
        assert logind.held_at_reload == ["fairlead-agent"]
        assert logind.holders() == ["fairlead-agent"]


async def test_a_lock_that_is_lost_in_the_reload_is_taken_again(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    logind.forgets_at_reload = True
    listener = a_listener(bus, short_path)
    async with listener.running(30):
        assert logind.holders() == ["fairlead-agent"]
        assert listener.problem == ""


async def test_a_lock_that_is_refused_is_asked_for_again(
    bus: str, logind: FakeLogind, short_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, and after a shutdown that was called off."""
    monkeypatch.setattr("kube_fairlead.agent.shutdown.logind_listener._AGAIN_FIRST_SECONDS", 0.05)
    logind.refuses_locks = 3
    listener = a_listener(bus, short_path)
    async with listener.running(5):
        assert "Permission denied" in listener.problem
        await until(lambda: logind.holders() == ["fairlead-agent"])
        await until(lambda: not listener.problem)
        await logind.announce(True)
        assert await announcement(listener) is True
        await listener.release()
        logind.refuses_locks = 3
        await logind.announce(False)
        assert await announcement(listener) is False
        await until(lambda: logind.holders() == ["fairlead-agent"])
        await until(lambda: not listener.problem)
    assert logind.refuses_locks == 0


async def test_a_logind_that_refuses_is_reported_and_held_up_all_the_same(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    logind.obeys_reload = False
    listener = a_listener(bus, short_path)
    async with listener.running(30):
        assert "logind waits 5 s at most and pods may need 30 s" in listener.problem
        assert "5 attempts" in listener.problem
        assert logind.holders() == ["fairlead-agent"]


async def test_a_reload_that_is_not_allowed_is_reported_and_the_lock_is_held_all_the_same(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    logind.refuses_reload = True
    listener = a_listener(bus, short_path)
    async with listener.running(30):
        assert "logind cannot be reloaded to wait 30 s" in listener.problem
        assert "Access denied" in listener.problem
        assert logind.holders() == ["fairlead-agent"]


async def test_after_a_cancellation_logind_waits_for_the_agent_again(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    listener = a_listener(bus, short_path)
    async with listener.running(5):
        for _ in range(2):
            await logind.announce(True)
            assert await announcement(listener) is True
            await listener.release()
            await logind.announce(False)
            assert await announcement(listener) is False
            await until(lambda: logind.holders() == ["fairlead-agent"])


async def test_an_agent_that_starts_in_the_middle_knows_and_has_the_lock_of_the_one_before(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    lock_store = FakeLockStore()
    async with a_listener(bus, short_path, lock_store).running(5):
        await logind.announce(True)
    assert logind.holders() == ["fairlead-agent"]  # the lock_store's copy
    second = a_listener(bus, short_path, lock_store)
    async with second.running(5):
        assert second.preparing is True
        assert second.problem == ""
        assert second.holds_lock
        await second.release()
        assert logind.holders() == []


async def test_without_a_lock_store_the_lock_is_lost_and_a_problem_is_reported(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    async with a_listener(bus, short_path).running(5):
        await logind.announce(True)
    second = a_listener(bus, short_path)
    async with second.running(5):
        assert second.preparing is True
        assert "the shutdown lock was lost" in second.problem


async def test_a_lock_that_logind_does_not_list_is_taken_again(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    reading, writing = os.pipe()
    listener = a_listener(bus, short_path, FakeLockStore(writing))
    async with listener.running(5):
        assert logind.holders() == ["fairlead-agent"]
    os.close(reading)


async def test_a_restart_of_logind_is_survived_and_nothing_is_missed(
    bus: str, logind: FakeLogind, short_path: pathlib.Path
) -> None:
    listener = a_listener(bus, short_path)
    async with listener.running(5):
        asked = logind.calls.count("ListInhibitors")
        await logind.restart()
        await until(lambda: logind.calls.count("ListInhibitors") > asked)
        assert logind.holders() == ["fairlead-agent"]
        logind.preparing = True  # announced while it was not there to be heard
        await logind.restart()
        assert await announcement(listener) is True


async def test_the_loss_of_the_bus_is_survived(short_path: pathlib.Path) -> None:
    logind = FakeLogind()
    places = short_path
    with private_bus(places) as address:
        listener = a_listener(address, places)
        async with logind.on(address):
            running = listener.running(5)
            await running.__aenter__()
            assert listener.preparing is False
    await until(lambda: listener.problem)
    logind.preparing = True
    with private_bus(places) as address:
        async with logind.on(address):
            assert await announcement(listener) is True
            await until(lambda: not listener.problem)
            assert listener.holds_lock
        await running.__aexit__(None, None, None)
    logind.close()


async def test_without_a_bus_the_state_is_unknown(short_path: pathlib.Path) -> None:
    listener = a_listener(f"unix:path={short_path}/missing", short_path)
    async with listener.running(5):
        assert listener.preparing is None
        assert "cannot reach the system bus" in listener.problem


async def test_a_logind_that_is_there_late_says_that_the_machine_does_not_go_down(short_path: pathlib.Path) -> None:
    """A manager that started without logind may have assumed another state."""
    logind = FakeLogind()
    listener = a_listener(f"unix:path={short_path / 'bus'}", short_path)
    async with listener.running(5):
        assert listener.preparing is None
        with private_bus(short_path) as address:
            async with logind.on(address):
                assert await announcement(listener) is False
                await until(lambda: listener.holds_lock)
    logind.close()


@pytest.mark.parametrize("body", [[], ["yes"]])
def test_a_signal_without_a_value_is_ignored(body: list[object]) -> None:
    from kube_fairlead.agent.shutdown.logind_listener import _announced

    signals: asyncio.Queue[bool | None] = asyncio.Queue()
    _announced(signals, body)
    assert signals.empty()
