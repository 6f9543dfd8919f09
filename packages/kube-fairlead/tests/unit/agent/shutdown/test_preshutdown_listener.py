from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from kube_fairlead.agent.shutdown.preshutdown_listener import PreshutdownListener
from kube_fairlead.agent.windows.control import Control, ServiceState
from kube_fairlead.agent.windows.service import Service
from kube_fairlead.base.clock import RealClock, VirtualClock
from tests.unit.agent.windows.fakemanager import FakeCalls, FakeManager, FakeRegistry


class Site:
    def __init__(self, order: list[str] | None = None, *, kubelet_owns: bool = False) -> None:
        self.calls = FakeCalls()
        self.manager = FakeManager()
        self.order = FakeRegistry(order)
        self.service = Service(self.calls, RealClock())
        self.clock = VirtualClock()
        self.listener = PreshutdownListener(
            self.service, self.manager, self.order, self.clock, kubelet="kubelet", kubelet_owns=kubelet_owns
        )

    def goes_down(self) -> bool:
        return bool(self.listener.preparing)

    @contextlib.asynccontextmanager
    async def listening(self, needed_seconds: float) -> AsyncIterator[None]:
        self.service.start()
        ready, done = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            async with self.listener.running(needed_seconds):
                ready.set()
                await done.wait()

        running = asyncio.create_task(self.service.run(work))
        try:
            await asyncio.wait([running, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            done.set()
            await running
            self.service.finish()


@pytest.mark.parametrize(
    ("found_ms", "needed", "left_ms", "changes"),
    [
        (10_000, 32.0, 32_000, ["change agent 32000"]),
        (10_000, 10.0, 10_000, []),
        (180_000, 32.0, 180_000, []),  # never lowered
        (0, 0.5, 500, ["change agent 500"]),
        (10_000, 10.0001, 10_001, ["change agent 10001"]),
        (10_000, 5e9, 0xFFFF_FFFF, ["change agent 4294967295"]),
    ],
)
async def test_the_timeout_is_raised_when_it_is_too_short(
    found_ms: int, needed: float, left_ms: int, changes: list[str]
) -> None:
    site = Site([])
    site.manager.timeout_ms = found_ms
    async with site.listening(needed):
        assert site.manager.timeout_ms == left_ms
        assert [line for line in site.manager.log if line.startswith("change")] == changes
        assert site.listener.problem == ""


async def test_a_timeout_that_stays_too_short_is_an_error_and_the_feature_works_with_what_there_is() -> None:
    site = Site([])
    site.manager.timeout_max_ms = 20_000
    async with site.listening(32):
        assert site.listener.problem == "Windows waits 20000 ms for the service and pods may need 32000 ms"
        assert [line for line in site.manager.log if "agent" in line][:3] == [
            "query agent",
            "change agent 32000",
            "query agent",
        ]
        site.calls.control(Control.PRESHUTDOWN)
        assert await site.listener.next_announcement() is True


@pytest.mark.parametrize("step", ["query", "change"])
async def test_a_manager_that_refuses_is_an_error(step: str) -> None:
    site = Site([])
    site.manager.refuses = {step}
    async with site.listening(32):
        assert "cannot be raised to 32000 ms" in site.listener.problem
        assert "Access is denied." in site.listener.problem


async def test_it_takes_its_place_before_what_it_needs() -> None:
    site = Site(["x", "containerd", "y"])
    site.order.needs = ["containerd"]
    async with site.listening(1):
        assert site.order.listed == ["x", "agent", "containerd", "y"]
    assert site.order.writes == 1


async def test_a_place_that_it_has_is_not_written_again() -> None:
    site = Site(["agent", "containerd"])
    site.order.needs = ["containerd"]
    async with site.listening(1):
        assert site.order.writes == 0


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - a thread changes it
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("kubelet_owns", "expected"),
    [(True, ["x", "kubelet", "agent", "containerd"]), (False, ["x", "agent", "kubelet", "containerd"])],
)
async def test_it_is_notified_after_a_kubelet_that_ends_the_pods_and_before_one_that_does_not(
    kubelet_owns: bool, expected: list[str]
) -> None:
    site = Site(["x", "kubelet", "containerd"], kubelet_owns=kubelet_owns)
    site.order.needs = ["containerd"]
    async with site.listening(1):
        assert site.order.listed == expected


async def test_a_kubelet_that_starts_later_and_puts_itself_behind_is_put_first_again() -> None:
    site = Site(["kubelet", "containerd"], kubelet_owns=True)
    site.order.needs = ["containerd"]
    async with site.listening(1):
        site.order.listed = ["agent", "kubelet", "containerd"]
        await site.clock.advance(61)
        await until(lambda: site.order.listed == ["kubelet", "agent", "containerd"])


async def test_a_timeout_that_could_not_be_raised_is_tried_again() -> None:
    site = Site([])
    site.manager.refuses = {"change"}
    async with site.listening(32):
        assert "cannot be raised to 32000 ms" in site.listener.problem
        site.manager.refuses = set()
        await site.clock.advance(61)
        await until(lambda: not site.listener.problem)
        assert site.manager.timeout_ms == 32_000


@pytest.mark.parametrize("why", ["missing", "order", "dependencies"])
async def test_without_a_place_the_feature_is_on_all_the_same(why: str, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(None if why == "missing" else [])
    site.order.refusal = why
    async with site.listening(32):
        assert "required services may stop before the agent" in caplog.text
        assert site.listener.problem == ""
        assert site.manager.timeout_ms == 32_000
        site.calls.control(Control.PRESHUTDOWN)
        assert await site.listener.next_announcement() is True


async def test_changed_settings_are_looked_at_again() -> None:
    site = Site([])
    async with site.listening(32):
        site.manager.timeout_ms = 5_000
        site.calls.control(Control.PARAMCHANGE)
        async with asyncio.timeout(60):
            while site.manager.timeout_ms != 32_000:  # noqa: ASYNC110 - a thread changes it
                await asyncio.sleep(0.001)
        assert site.listener.problem == ""


async def test_it_receives_the_notification_and_releases_the_shutdown() -> None:
    site = Site([])
    async with site.listening(1):
        assert not site.goes_down()
        await site.listener.release()  # nothing is held up
        assert site.calls.last() is ServiceState.RUNNING
        site.calls.control(Control.PRESHUTDOWN)
        assert await site.listener.next_announcement() is True
        assert site.goes_down()
        assert site.calls.last() is ServiceState.STOP_PENDING
        await site.listener.release()
        assert site.calls.last() is ServiceState.STOPPED
        await site.listener.release()
    assert site.calls.states.count(ServiceState.STOPPED) == 1
