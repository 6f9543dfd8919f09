from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.quantity import Format, Quantity, QuantityError

amounts = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.from_regex(r"[0-9]{1,20}(\.[0-9]{0,12})?", fullmatch=True),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "e3", "E-3", "e+7"]),
)


def exact(quantity: Quantity) -> Fraction:
    return Fraction(quantity.unscaled) * Fraction(10) ** quantity.scale


@given(amounts)
def test_canonical_form_is_a_fixed_point_and_loses_nothing(text: str) -> None:
    quantity = Quantity.parse(text)
    again = Quantity.parse(quantity.canonical())
    assert again == quantity
    assert again.canonical() == quantity.canonical()
    assert hash(again) == hash(quantity)
    assert Quantity.parse(str(quantity)) == quantity


@given(amounts, amounts)
def test_order_and_arithmetic_are_exact(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert (a < b) == (exact(a) < exact(b))
    assert (a == b) == (exact(a) == exact(b))
    assert exact(a + b) == exact(a) + exact(b)
    assert exact(a - b) == exact(a) - exact(b)
    assert (a + b) - b == a


@given(amounts)
def test_whole_values_round_away_from_zero(text: str) -> None:
    quantity = Quantity.parse(text)
    for scale, value in ((0, quantity.value()), (-3, quantity.scaled_value(-3))):
        exactly = exact(quantity) / Fraction(10) ** scale
        assert abs(value) >= abs(exactly) > abs(value) - 1 or value == exactly == 0


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [("1500m", 2, 1500), ("-1500m", -2, -1500), ("1Gi", 1 << 30, 1000 << 30), ("0", 0, 0), ("1n", 1, 1)],
)
def test_values(text: str, value: int, milli: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.value(), quantity.scaled_value(-3)) == (value, milli)


def test_families_are_kept_and_taken_over_from_zero() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1536Mi")) == "2560Mi"
    assert str(Quantity.parse("0") + Quantity.parse("2Gi")) == "2Gi"
    assert str(Quantity(1024, family=Format.BINARY_SI)) == "1Ki"
    assert str(Quantity(12, scale=6, family=Format.DECIMAL_EXPONENT)) == "12e6"
    assert str(Quantity(1500, scale=-3)) == "1500m"


def test_thousands_of_exa_are_not_turned_into_another_number() -> None:
    assert Quantity.parse("1000E").canonical() == "1000E"
    assert Quantity.parse(Quantity.parse("12000E").canonical()) == Quantity.parse("12000E")


@pytest.mark.parametrize("text", ["1e999999999999", "1e-999999999999", "9" * 5000, "1" + "e" + "9" * 5000])
def test_hostile_sizes_are_refused_quickly(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


def test_is_false_only_at_zero_and_compares_with_quantities_only() -> None:
    assert not Quantity.parse("0")
    assert Quantity.parse("1n")
    assert Quantity.parse("1") != 1
    assert repr(Quantity.parse("1Gi")) == "Quantity.parse('1Gi')"
