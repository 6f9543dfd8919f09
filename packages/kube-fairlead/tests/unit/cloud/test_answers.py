"""Every method of the provider protocol x every kind of wrong answer: an outage of that call, with a growing pause."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from typing import Any

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.cloud.calls import CloudCalls
from kube_fairlead.cloud.errors import CloudError, CloudUnavailable, NotReadyYet, ProviderFault
from kube_fairlead.cloud.provider import Instances, Zones
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead.cloud.requests import before_request
from kube_fairlead.election import NotLeading
from tests.unit.cloud.wrong import OPTIONAL, RIGHT, Method, answering, exceptions, methods, raising, wrong_answers

ASKED = [method for method in methods() if inspect.iscoroutinefunction(method)]


def name_of(method: Method) -> str:
    return method.__name__


def make(**more: Any) -> tuple[VirtualClock, CloudCalls, PrometheusMetrics]:
    clock, metrics = VirtualClock(), PrometheusMetrics()
    calls = CloudCalls(
        "plug-in", clock=clock, randomness=SeededRandomness(1), metrics=metrics, per_second=1e6, burst=10**6, **more
    )
    return clock, calls, metrics


async def outcome(clock: VirtualClock, calls: CloudCalls, method: Method, work: Any) -> BaseException | None:
    """How one call ends, however long it is made to wait."""
    failures: list[BaseException] = []
    owned = tasks.TaskSet("test", on_failure=failures.append)
    task = owned.start(calls.call(method, work), name="call")
    while not task.done():
        await clock.advance(60)
    await owned.close()
    return failures[0] if failures else None


def test_every_method_of_the_protocol_is_here() -> None:
    assert set(methods()) == set(RIGHT)


@pytest.mark.parametrize("method", ASKED, ids=name_of)
async def test_what_is_promised_passes(method: Method) -> None:
    _, calls, _ = make()
    answer = await calls.call(method, answering(RIGHT[method]))
    assert answer == (tuple(RIGHT[method]) if isinstance(RIGHT[method], list) else RIGHT[method])


@pytest.mark.parametrize("method", ASKED, ids=name_of)
async def test_a_wrong_answer_is_an_outage_of_the_call(method: Method) -> None:
    clock, calls, metrics = make()
    wrong = [one for one in wrong_answers(RIGHT[method]) if one is not None or method not in OPTIONAL]
    assert len(wrong) >= 20
    for answer in wrong:
        failure = await outcome(clock, calls, method, answering(answer))
        assert isinstance(failure, ProviderFault), (answer, failure)
        assert str(failure)
    counted = f'fairlead_cloud_calls_total{{call="{name_of(method)}",outcome="fault",provider="plug-in"}}'
    assert f"{counted} {len(wrong):.1f}" in metrics.exposition().decode()


@pytest.mark.parametrize("method", ASKED, ids=name_of)
async def test_so_is_whatever_it_raises(method: Method) -> None:
    clock, calls, _ = make()
    for error in exceptions():
        failure = await outcome(clock, calls, method, raising(error))
        assert isinstance(failure, ProviderFault), (error, failure)
        assert str(failure).startswith(f"{name_of(method)}() ")

    def at_once() -> Any:
        raise ValueError("before there is anything to await")

    for work in (at_once, lambda: RIGHT[method]):
        assert isinstance(await outcome(clock, calls, method, work), ProviderFault)


@pytest.mark.parametrize("answer", [None, 0, 1, "yes", [], ..., *exceptions()], ids=repr)
def test_an_id_that_the_provider_fails_at_is_not_recognised(answer: object) -> None:
    class Failing(FakeCloud):
        def recognises(self, provider_id: str) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer

    async def ask() -> bool:
        return make()[1].recognises(Failing("aws"), "aws://1")

    assert asyncio.run(ask()) is False


async def test_the_same_call_pauses_longer_each_time_though_others_get_answers() -> None:
    clock, calls, _ = make()
    asked: list[float] = []

    async def exists() -> Any:
        asked.append(clock.monotonic())

    async def keep_asking() -> None:
        while True:
            await calls.call(Instances.describe, answering({}))
            with pytest.raises(ProviderFault):
                await calls.call(Instances.exists, exists)

    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(keep_asking(), name="asking")
        await clock.advance(600)
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert gaps[0] <= 1
    assert len(gaps) > 10
    assert all(48 <= gap <= 60 for gap in gaps[6:])


async def test_a_call_in_which_nothing_was_asked_ends_no_pause() -> None:
    """A cloud is down, and a question that needs no request is answered all the time."""
    clock, calls, _ = make()
    asked: list[float] = []

    async def describe() -> Any:
        await before_request()
        asked.append(clock.monotonic())
        raise CloudUnavailable("down")

    async def keep_asking() -> None:
        while True:
            with pytest.raises(CloudUnavailable):
                await calls.call(Instances.describe, describe)
            await calls.call(Zones.zone_of, answering(RIGHT[Zones.zone_of]))

    async def describe_well() -> Any:
        await before_request()
        return {}

    await calls.call(Instances.describe, describe_well)
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(keep_asking(), name="asking")
        await clock.advance(600)
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert all(48 <= gap <= 60 for gap in gaps[6:])
    assert len(gaps) > 10


@pytest.mark.parametrize("after", [None, "5", -1, float("nan"), float("inf"), True])
async def test_a_time_to_ask_again_that_is_none_is_a_fault(after: Any) -> None:
    clock, calls, _ = make()
    error = NotReadyYet("being made", retry_after_seconds=after)
    failure = await outcome(clock, calls, Zones.zone_of, raising(error))
    assert isinstance(failure, ProviderFault)
    assert f"sets an invalid retry time of {after!r} seconds" in str(failure)


async def test_an_error_of_the_protocol_that_cannot_be_printed_is_a_fault() -> None:
    class Silent(CloudError):
        def __str__(self) -> str:
            raise ValueError

    clock, calls, _ = make()
    assert isinstance(await outcome(clock, calls, Zones.zone_of, raising(Silent())), ProviderFault)


async def test_an_answer_is_a_copy() -> None:
    _, calls, _ = make()
    mine = dict(RIGHT[Instances.describe])
    answer = await calls.call(Instances.describe, answering(mine))
    mine.clear()
    assert len(answer) == 1


@pytest.mark.parametrize("hides", ["wraps", "swallows"])
async def test_a_provider_cannot_hide_that_the_lease_is_lost(hides: str) -> None:
    leads = True

    def check() -> None:
        if not leads:
            raise NotLeading("lost")

    _, calls, _ = make(check=check)

    async def change() -> Any:
        nonlocal leads
        await before_request()
        leads = False
        try:
            await before_request()
        except Exception as error:
            if hides == "wraps":
                raise ExceptionGroup("of a task group", [error]) from error
            return None

    with pytest.raises(NotLeading):
        await calls.call(next(method for method in ASKED if name_of(method) == "delete_route"), change, changes=True)
