from __future__ import annotations

import asyncio
import threading

import pytest

from kube_fairlead.agent.windows.control import Answer, Control, ServiceState
from kube_fairlead.agent.windows.scm import ScmError
from kube_fairlead.agent.windows.service import NotAService, Service
from kube_fairlead.base.clock import RealClock, VirtualClock
from tests.unit.agent.windows.fakemanager import FakeCalls

START_PENDING, RUNNING = ServiceState.START_PENDING, ServiceState.RUNNING
STOP_PENDING, STOPPED = ServiceState.STOP_PENDING, ServiceState.STOPPED


class FakeHandler:
    """A shutdown handler that notes its notifications."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[str] = asyncio.Queue()
        self.threads: set[str] = set()

    def on_preshutdown(self) -> None:
        self._note("down")

    def on_settings_changed(self) -> None:
        self._note("changed")

    def _note(self, notification: str) -> None:
        self.threads.add(threading.current_thread().name)
        self.received.put_nowait(notification)


@pytest.fixture
def calls() -> FakeCalls:
    return FakeCalls()


@pytest.fixture
def service(calls: FakeCalls) -> Service:
    return Service(calls, RealClock())


async def forever() -> None:
    await asyncio.Event().wait()


def test_the_handler_is_there_before_anything_else(calls: FakeCalls, service: Service) -> None:
    service.start()
    assert calls.states == [START_PENDING, RUNNING]
    assert calls.control(Control.INTERROGATE) == Answer.DONE
    service.finish()
    service.join()
    assert calls.states == [START_PENDING, RUNNING, STOPPED]


def test_a_process_that_is_not_a_service_raises() -> None:
    service = Service(FakeCalls(is_a_service=False), RealClock())
    with pytest.raises(NotAService, match="not started by the service control manager"):
        service.start()


def test_another_refusal_is_passed_on(calls: FakeCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(main: object) -> None:
        raise ScmError("becoming a service", 1056, "An instance is running.")

    monkeypatch.setattr(calls, "dispatch", refuse)
    with pytest.raises(ScmError, match=r"becoming a service: An instance is running\. \(Windows error 1056\)"):
        Service(calls, RealClock()).start()


async def test_stop_ends_what_runs(calls: FakeCalls, service: Service) -> None:
    service.start()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            assert calls.control(Control.STOP) == Answer.DONE
            await forever()
        finally:
            ended.set()

    await service.run(work)
    assert ended.is_set()
    assert calls.states == [START_PENDING, RUNNING, STOP_PENDING]
    service.finish()
    assert calls.states[-1] is STOPPED


async def test_what_ends_by_itself_ends_the_run(service: Service) -> None:
    service.start()
    await service.run(lambda: asyncio.sleep(0))
    service.finish()


async def test_what_fails_fails_the_run_and_the_service(calls: FakeCalls, service: Service) -> None:
    service.start()

    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ExceptionGroup) as failure:
        await service.run(fail)
    assert "broken" in str(failure.value.exceptions)
    service.finish(1)
    assert calls.reports[-1].exit_code == 1


async def test_the_notification_reaches_the_attached_handler_on_the_event_loop(
    calls: FakeCalls, service: Service
) -> None:
    service.start()
    handler = FakeHandler()

    async def work() -> None:
        with service.attached(handler):
            calls.control(Control.PARAMCHANGE)
            assert await handler.received.get() == "changed"
            assert calls.states[-1] is RUNNING
            calls.control(Control.PRESHUTDOWN)
            assert await handler.received.get() == "down"
            assert calls.states[-1] is STOP_PENDING
            assert calls.control(Control.STOP) == Answer.NOT_NOW  # what was begun is brought to its end
            service.finish()
            await forever()

    await service.run(work)
    assert handler.threads == {threading.current_thread().name}
    assert calls.states == [START_PENDING, RUNNING, STOP_PENDING, STOPPED]


@pytest.mark.parametrize("when", ["before the loop", "before attachment", "after attachment"])
async def test_a_notification_without_a_handler_only_stops_the_service(
    calls: FakeCalls, service: Service, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    service.start()
    handler = FakeHandler()
    if when == "before the loop":
        calls.control(Control.PRESHUTDOWN)

    async def work() -> None:
        if when == "after attachment":
            with service.attached(handler):
                pass
        if when != "before the loop":
            calls.control(Control.PRESHUTDOWN)
        await forever()

    await service.run(work)
    service.finish()
    assert handler.received.empty()
    assert calls.states == [START_PENDING, RUNNING, STOP_PENDING, STOPPED]
    assert calls.reports[-1].exit_code == 0
    assert "before the agent manages pods" in caplog.text


async def test_a_change_without_a_handler_is_ignored(calls: FakeCalls, service: Service) -> None:
    service.start()
    assert calls.control(Control.PARAMCHANGE) == Answer.DONE
    service.finish()
    assert calls.control(Control.PARAMCHANGE) == Answer.NOT_NOW


async def test_checkpoints_are_counted_while_pods_end(calls: FakeCalls) -> None:
    clock = VirtualClock()
    service = Service(calls, clock)
    service.start()
    handler = FakeHandler()

    async def work() -> None:
        with service.attached(handler):
            await clock.advance(60)
            assert calls.states == [START_PENDING, RUNNING]
            calls.control(Control.PRESHUTDOWN)
            assert await handler.received.get() == "down"
            for _ in range(30):
                await clock.advance(1)
            service.finish()
            await clock.advance(10)

    await service.run(work)
    pending = [status for status in calls.reports if status.state is STOP_PENDING]
    assert [status.checkpoint for status in pending] == list(range(1, 32))
    assert all(status.wait_hint_ms > 2000 for status in pending)
    assert calls.reports[-1].state is STOPPED


async def test_a_rejected_status_report_is_ignored(calls: FakeCalls, service: Service) -> None:
    service.start()
    calls.refuses_reports = True
    assert calls.control(Control.STOP) == Answer.DONE
    await service.run(forever)
    service.finish()
    assert calls.states == [START_PENDING, RUNNING]
