"""Functions that make and read optional values.

Upstream: github.com/google/cel-go@v0.26.0/cel/library.go,
    github.com/google/cel-go@v0.26.0/common/types/optional.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.cel import errors, field_access, macros, types, values
from kube_fairlead_apiserver.cel.declarations import Library, function, member
from kube_fairlead_apiserver.cel.types import BOOL, INT, list_of, map_of, optional_of, parameter
from kube_fairlead_apiserver.cel.values import NONE, Optional

__all__ = ["OPTIONALS"]

_K, _V = parameter("K"), parameter("V")
_MAYBE = optional_of(_V)
_ZERO_TIME = values.TIMESTAMP_SECONDS_MIN * 1_000_000_000


def _planned(*_arguments: Any) -> Any:
    raise TypeError("this operator is planned, never called")


def _of_non_zero(value: Any) -> Optional:
    match value:
        case values.Timestamp():
            zero = value.nanoseconds == _ZERO_TIME
        case values.Duration():
            zero = value.nanoseconds == 0
        case values.Opaque() | Optional() | types.CelType():
            zero = False
        case _:
            zero = not value
    return NONE if zero else Optional(value)


def _value(optional: Optional) -> Any:
    if optional is NONE:
        raise errors.EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(elements: list[Any]) -> list[Any]:
    for element in elements:
        if not isinstance(element, Optional):
            raise errors.EvaluationError(f"value {element} is not optional")
    return [element.value for element in elements if element is not NONE]


OPTIONALS = Library(
    "optional",
    overloads=(
        function("optional.of", (_V,), _MAYBE, Optional),
        function("optional.ofNonZeroValue", (_V,), _MAYBE, _of_non_zero),
        function("optional.none", (), _MAYBE, lambda: NONE),
        function("optional.unwrap", (list_of(_MAYBE),), list_of(_V), _unwrap),
        member("unwrapOpt", (list_of(_MAYBE),), list_of(_V), _unwrap),
        member("value", (_MAYBE,), _V, _value),
        member("hasValue", (_MAYBE,), BOOL, lambda optional: optional is not NONE),
        member("or", (_MAYBE, _MAYBE), _MAYBE, _planned),
        member("orValue", (_MAYBE, _V), _V, _planned),
        function("_[?_]", (list_of(_V), INT), _MAYBE, _planned),
        function("_[?_]", (optional_of(list_of(_V)), INT), _MAYBE, _planned),
        function("_[?_]", (map_of(_K, _V), _K), _MAYBE, _planned),
        function("_[?_]", (optional_of(map_of(_K, _V)), _K), _MAYBE, _planned),
        function("_[_]", (optional_of(list_of(_V)), INT), _MAYBE, field_access.index_value),
        function("_[_]", (optional_of(map_of(_K, _V)), _K), _MAYBE, field_access.index_value),
        member("first", (list_of(_V),), _MAYBE, lambda elements: Optional(elements[0]) if elements else NONE),
        member("last", (list_of(_V),), _MAYBE, lambda elements: Optional(elements[-1]) if elements else NONE),
    ),
    macros=macros.OPTIONAL,
    types={"optional_type": types.OPTIONAL},
)
