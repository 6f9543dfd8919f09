from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.randomness import SeededRandomness

PLAIN = Backoff(initial_seconds=1, factor=2, cap_seconds=10, jitter=0)


def test_delays_grow_to_the_cap() -> None:
    assert list(itertools.islice(PLAIN.delays(SeededRandomness(0)), 6)) == [1, 2, 4, 8, 10, 10]


def test_reset_starts_over() -> None:
    delays = PLAIN.delays(SeededRandomness(0))
    assert (next(delays), next(delays), delays.attempts) == (1, 2, 2)
    delays.reset()
    assert (next(delays), delays.attempts) == (1, 1)


@given(
    st.floats(min_value=0.001, max_value=100),
    st.floats(min_value=1, max_value=10),
    st.floats(min_value=1, max_value=1000),
    st.floats(min_value=0, max_value=1),
    st.integers(min_value=0, max_value=100_000),
)
def test_jitter_only_shortens(initial: float, factor: float, times: float, jitter: float, attempt: int) -> None:
    backoff = Backoff(initial_seconds=initial, factor=factor, cap_seconds=initial * times, jitter=jitter)
    ceiling = backoff.ceiling(attempt)
    delay = backoff.delay(attempt, SeededRandomness(attempt))
    assert ceiling * (1 - jitter) <= delay * (1 + 1e-9)
    assert 0 <= delay <= ceiling <= backoff.cap_seconds


@given(st.integers(min_value=0, max_value=5000))
def test_ceilings_never_fall(attempt: int) -> None:
    backoff = Backoff()
    assert backoff.ceiling(attempt) <= backoff.ceiling(attempt + 1)


def test_a_series_never_overflows() -> None:
    assert PLAIN.ceiling(10**6) == 10


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"initial_seconds": 0}, "initial_seconds"),
        ({"factor": 0.5}, "factor"),
        ({"initial_seconds": 5, "cap_seconds": 4}, "cap_seconds"),
        ({"jitter": 1.5}, "jitter"),
        ({"jitter": -0.1}, "jitter"),
    ],
)
def test_nonsense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Backoff(**fields)
