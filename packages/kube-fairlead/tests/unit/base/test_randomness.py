from __future__ import annotations

import pytest

from kube_fairlead.base.randomness import Randomness, SeededRandomness, SystemRandomness


def draws(randomness: Randomness) -> list[object]:
    return [
        randomness.random(),
        randomness.uniform(2, 3),
        randomness.choice("abcdefghijklmnop"),
        randomness.token_bytes(16),
    ]


def test_a_seed_replays() -> None:
    assert draws(SeededRandomness(7)) == draws(SeededRandomness(7))
    assert draws(SeededRandomness(7)) != draws(SeededRandomness(8))


def test_the_draws_of_a_seed_never_change() -> None:
    """A seed in a bug report must mean the same on every machine and version."""
    assert SeededRandomness(7).token_bytes(4).hex() == "38b4e652"
    assert round(SeededRandomness("7/network").random(), 6) == round(SeededRandomness(7).fork("network").random(), 6)


def test_forks_are_independent() -> None:
    """One more draw in one part leaves the other parts as they were."""
    quiet, busy = SeededRandomness(7), SeededRandomness(7)
    busy.fork("disk").random()
    busy.random()
    assert draws(quiet.fork("network")) == draws(busy.fork("network"))
    assert draws(quiet.fork("network")) != draws(quiet.fork("disk"))


@pytest.mark.parametrize("randomness", [SystemRandomness(), SeededRandomness(1)], ids=["system", "seeded"])
def test_ranges(randomness: Randomness) -> None:
    for _ in range(200):
        assert 0 <= randomness.random() < 1
        assert 2 <= randomness.uniform(2, 3) <= 3
        assert randomness.choice([1, 2]) in {1, 2}
    assert len(randomness.token_bytes(33)) == 33


def test_the_system_does_not_repeat() -> None:
    assert SystemRandomness().token_bytes(16) != SystemRandomness().token_bytes(16)
