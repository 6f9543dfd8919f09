from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base.identity import NAME_SUFFIX_ALPHABET, RandomIds
from kube_fairlead.base.randomness import SeededRandomness, SystemRandomness


@given(st.integers())
def test_uuids_are_version_4(seed: int) -> None:
    text = RandomIds(SeededRandomness(seed)).uuid()
    parsed = uuid.UUID(text)
    assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, text)


def test_uuids_do_not_repeat() -> None:
    ids = RandomIds(SystemRandomness())
    assert len({ids.uuid() for _ in range(1000)}) == 1000


@given(st.integers())
def test_name_suffix_is_kubernetes_own(seed: int) -> None:
    suffix = RandomIds(SeededRandomness(seed)).name_suffix()
    assert len(suffix) == 5
    assert set(suffix) <= set(NAME_SUFFIX_ALPHABET)


def test_alphabet_has_no_vowels_and_no_look_alikes() -> None:
    assert not set(NAME_SUFFIX_ALPHABET) & set("aeiouy013")
    assert len(NAME_SUFFIX_ALPHABET) == 27
