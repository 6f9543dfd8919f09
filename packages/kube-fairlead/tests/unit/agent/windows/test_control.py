from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.agent.windows.control import (
    LEGAL_MOVES,
    START_HINT_MS,
    STOP_HINT_MS,
    Accept,
    Answer,
    Control,
    Effect,
    IllegalStateChange,
    ServiceModel,
    ServiceState,
    Status,
)

START_PENDING, RUNNING = ServiceState.START_PENDING, ServiceState.RUNNING
STOP_PENDING, STOPPED = ServiceState.STOP_PENDING, ServiceState.STOPPED
PENDING = {START_PENDING, STOP_PENDING}


def a_service(state: ServiceState, *, accepts_preshutdown: bool = True, is_attached: bool = False) -> ServiceModel:
    model = ServiceModel(accepts_preshutdown=accepts_preshutdown)
    model.is_attached = is_attached
    if state is not START_PENDING:
        model.started()
    if state is STOP_PENDING:
        model.handle(Control.STOP)
    if state is STOPPED:
        model.finished()
    assert model.status.state is state
    return model


def test_a_service_from_its_start_to_its_end() -> None:
    model = ServiceModel()
    seen = [model.status]
    model.started()
    seen.append(model.status)
    model.handle(Control.STOP)
    seen.append(model.status)
    for _ in range(3):
        assert model.progressed()
        seen.append(model.status)
    assert model.finished()
    seen.append(model.status)
    assert seen == [
        Status(state=START_PENDING, checkpoint=1, wait_hint_ms=START_HINT_MS),
        Status(state=RUNNING, accepts=Accept.STOP | Accept.PARAMCHANGE | Accept.PRESHUTDOWN),
        *(Status(state=STOP_PENDING, checkpoint=number, wait_hint_ms=STOP_HINT_MS) for number in (1, 2, 3, 4)),
        Status(state=STOPPED),
    ]


@pytest.mark.parametrize(("hears", "notice"), [(True, Accept.PRESHUTDOWN), (False, Accept.SHUTDOWN)])
def test_it_asks_for_one_notice_of_a_shutdown_only(hears: bool, notice: Accept) -> None:
    model = a_service(RUNNING, accepts_preshutdown=hears)
    assert model.status.accepts == Accept.STOP | Accept.PARAMCHANGE | notice


@pytest.mark.parametrize("is_attached", [True, False])
@pytest.mark.parametrize("accepts_preshutdown", [True, False])
@pytest.mark.parametrize("state", list(ServiceState))
def test_every_control_in_every_state(state: ServiceState, accepts_preshutdown: bool, is_attached: bool) -> None:
    for control in range(256):
        model = a_service(state, accepts_preshutdown=accepts_preshutdown, is_attached=is_attached)
        before = model.status
        answer, effect = model.handle(control)
        notice = Control.PRESHUTDOWN if accepts_preshutdown else Control.SHUTDOWN
        if control == Control.INTERROGATE:
            assert (answer, effect, model.status) == (Answer.DONE, Effect.NOTHING, before)
        elif control not in {Control.STOP, notice, Control.PARAMCHANGE}:
            assert (answer, effect, model.status) == (Answer.UNKNOWN, Effect.NOTHING, before)
        elif state is not RUNNING:
            assert (answer, effect, model.status) == (Answer.NOT_NOW, Effect.NOTHING, before)
        elif control == Control.PARAMCHANGE:
            assert (answer, effect, model.status) == (Answer.DONE, Effect.RELOAD, before)
        else:
            assert model.status == Status(state=STOP_PENDING, checkpoint=1, wait_hint_ms=STOP_HINT_MS)
            heard = Effect.SHUT_DOWN if is_attached else Effect.IGNORE_AND_STOP
            assert (answer, effect) == (Answer.DONE, heard if control == Control.PRESHUTDOWN else Effect.STOP)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(ServiceState, repeat=2)))
def test_every_move(before: ServiceState, after: ServiceState) -> None:
    model = a_service(before)
    if after in LEGAL_MOVES[before]:
        model._move(after)
        assert model.status.state is after
    else:
        with pytest.raises(IllegalStateChange, match=f"{before.name} cannot become {after.name}"):
            model._move(after)


@pytest.mark.parametrize("state", list(ServiceState))
def test_progress_counts_while_something_is_pending_only(state: ServiceState) -> None:
    model = a_service(state)
    before = model.status
    assert model.progressed() is (state in PENDING)
    assert model.status.checkpoint == (before.checkpoint + 1 if state in PENDING else 0)


@pytest.mark.parametrize("state", list(ServiceState))
def test_it_can_end_in_every_state_and_ends_once(state: ServiceState) -> None:
    model = a_service(state)
    assert model.finished(3) is (state is not STOPPED)
    assert model.status == Status(state=STOPPED, exit_code=0 if state is STOPPED else 3)
    assert not model.finished(4)


STEPS = st.one_of(
    st.sampled_from(["started", "progressed", "finished", "attach", "detach"]),
    st.integers(min_value=0, max_value=255),
)


@given(st.booleans(), st.lists(STEPS, max_size=40))
def test_whatever_happens_every_report_is_one_the_manager_can_follow(hears: bool, steps: list[str | int]) -> None:
    model = ServiceModel(accepts_preshutdown=hears)
    notices = 0
    for step in steps:
        before = model.status
        match step:
            case "started":
                if before.state is START_PENDING:
                    model.started()
            case "progressed":
                model.progressed()
            case "finished":
                model.finished()
            case "attach" | "detach":
                model.is_attached = step == "attach"
            case int():
                _, effect = model.handle(step)
                notices += effect in {Effect.SHUT_DOWN, Effect.IGNORE_AND_STOP, Effect.STOP}
        after = model.status
        assert after == before or after.state in LEGAL_MOVES[before.state]
        assert (after.checkpoint > 0) is (after.wait_hint_ms > 0) is (after.state in PENDING)
        if after.state is before.state and after != before:
            assert after.checkpoint == before.checkpoint + 1
        assert (after.accepts is not Accept.NONE) is (after.state is RUNNING)
    assert notices <= 1
