"""Bytes of every kind for what reads bytes: mixtures of what leads somewhere and of anything.

`make fuzz` plays for longer.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import SEEDS, TARGETS

BYTES = st.lists(st.one_of(st.sampled_from(SEEDS), st.binary(max_size=12)), max_size=12).map(b"".join)


@pytest.mark.parametrize("name", TARGETS)
@given(data=BYTES)
@settings(max_examples=150)
def test_nothing_but_its_own_errors(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TARGETS)
@given(data=BYTES)
@settings(max_examples=20_000)
def test_nothing_but_its_own_errors_for_long(name: str, data: bytes) -> None:
    TARGETS[name](data)
