"""Kubernetes resource quantities: ``quantity('1.5Gi').isGreaterThan(quantity('1G'))``.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/library/quantity.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/quantity.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api import quantity
from kube_fairlead_apiserver.cel import errors, values
from kube_fairlead_apiserver.cel.declarations import Library, function, member
from kube_fairlead_apiserver.cel.library import costs
from kube_fairlead_apiserver.cel.types import BOOL, DOUBLE, INT, STRING, CelType, Kind

__all__ = ["QUANTITIES", "QuantityValue"]

_QUANTITY = CelType(Kind.OBJECT, "kubernetes.Quantity")


class QuantityValue(values.Opaque):
    """A quantity inside an expression."""

    __slots__ = ("quantity",)
    cel_type = _QUANTITY

    def __init__(self, amount: quantity.Quantity) -> None:
        self.quantity = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantityValue) and self.quantity == other.quantity

    def __hash__(self) -> int:
        return hash(self.quantity)

    def __repr__(self) -> str:
        return f"quantity({str(self.quantity)!r})"


def _parse(text: str) -> QuantityValue:
    try:
        return QuantityValue(quantity.Quantity.parse(text))
    except quantity.QuantityError as error:
        raise errors.EvaluationError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        quantity.Quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _compare(left: QuantityValue, right: QuantityValue) -> int:
    return (left.quantity > right.quantity) - (left.quantity < right.quantity)


def _as_int(value: QuantityValue) -> int | None:
    amount = value.quantity
    if amount.scale < 0:
        return None
    whole = amount.value()
    return whole if values.INT_MIN <= whole <= values.INT_MAX else None


def _as_integer(value: QuantityValue) -> int:
    whole = _as_int(value)
    if whole is None:
        raise errors.EvaluationError("cannot convert value to integer")
    return whole


def _as_float(value: QuantityValue) -> float:
    amount = value.quantity
    try:
        return float(f"{amount.unscaled}e{amount.scale}")
    except OverflowError:
        return float("inf") if amount.unscaled > 0 else float("-inf")


def _amount(other: Any) -> quantity.Quantity:
    return other.quantity if isinstance(other, QuantityValue) else quantity.Quantity(other)


def _add(left: QuantityValue, right: Any) -> QuantityValue:
    return QuantityValue(left.quantity + _amount(right))


def _subtract(left: QuantityValue, right: Any) -> QuantityValue:
    return QuantityValue(left.quantity - _amount(right))


QUANTITIES = Library(
    "kubernetes.quantity",
    overloads=(
        function("quantity", (STRING,), _QUANTITY, _parse, costs.traversal),
        function("isQuantity", (STRING,), BOOL, _is_quantity, costs.traversal),
        function(
            "sign", (_QUANTITY,), INT, lambda value: (value.quantity.unscaled > 0) - (value.quantity.unscaled < 0)
        ),
        member("isGreaterThan", (_QUANTITY, _QUANTITY), BOOL, lambda left, right: left.quantity > right.quantity),
        member("isLessThan", (_QUANTITY, _QUANTITY), BOOL, lambda left, right: left.quantity < right.quantity),
        member("compareTo", (_QUANTITY, _QUANTITY), INT, _compare),
        member("asApproximateFloat", (_QUANTITY,), DOUBLE, _as_float),
        member("asInteger", (_QUANTITY,), INT, _as_integer),
        member("isInteger", (_QUANTITY,), BOOL, lambda value: _as_int(value) is not None),
        member("add", (_QUANTITY, _QUANTITY), _QUANTITY, _add),
        member("add", (_QUANTITY, INT), _QUANTITY, _add),
        member("sub", (_QUANTITY, _QUANTITY), _QUANTITY, _subtract),
        member("sub", (_QUANTITY, INT), _QUANTITY, _subtract),
    ),
)
