"""Values of expressions, in their own Python form.

=================  ==========================================================
CEL                Python
=================  ==========================================================
bool, int, double  bool, int, float
uint               Uint
string, bytes      str, bytes
null               None
list               list, or SetList and MapList, which compare by their own rules
map                dict; a bool key is stored as BoolKey, since True == 1 in Python
object             the JSON dict itself; its type knows what is inside
timestamp          Timestamp
duration           Duration
optional           Optional
type               types.CelType
anything else      an Opaque
=================  ==========================================================

Upstream: github.com/google/cel-go@v0.26.0/common/types/types.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/common/valuesunstructured.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/common/maplist.go
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Sequence
from typing import Any

from kube_fairlead_apiserver.cel import types

__all__ = [
    "DURATION_MAX",
    "DURATION_MIN",
    "INT_MAX",
    "INT_MIN",
    "NONE",
    "TIMESTAMP_SECONDS_MAX",
    "TIMESTAMP_SECONDS_MIN",
    "UINT_MAX",
    "BoolKey",
    "Duration",
    "MapList",
    "Opaque",
    "Optional",
    "SetList",
    "Timestamp",
    "Uint",
    "map_keys",
    "plain",
    "size",
    "type_of",
]

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
UINT_MAX = 2**64 - 1
DURATION_MIN, DURATION_MAX = INT_MIN, INT_MAX  # nanoseconds
TIMESTAMP_SECONDS_MIN, TIMESTAMP_SECONDS_MAX = -62135596800, 253402300799  # years 1 to 9999


class Uint(int):
    """An unsigned 64-bit number. It has its own class, because 1u is not an int in CEL although they compare equal."""

    __slots__ = ()


class BoolKey(enum.Enum):
    """A bool as the key of a map."""

    FALSE = False
    TRUE = True


@functools.total_ordering
class Timestamp:
    """A point in time with nanoseconds. Its original zone is kept for printing only."""

    __slots__ = ("nanoseconds", "offset_seconds")

    def __init__(self, nanoseconds: int, offset_seconds: int = 0) -> None:
        self.nanoseconds = nanoseconds
        self.offset_seconds = offset_seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    def __repr__(self) -> str:
        return f"Timestamp({self.nanoseconds})"


@functools.total_ordering
class Duration:
    """A span of time in nanoseconds."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: Duration) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(("duration", self.nanoseconds))

    def __repr__(self) -> str:
        return f"Duration({self.nanoseconds})"


class Optional:
    """A value that may be absent. ``NONE`` is the only absent one."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "Optional.NONE" if self is NONE else f"Optional({self.value!r})"


NONE = Optional(None)


class SetList(list[Any]):
    """A list with x-kubernetes-list-type=set: order does not matter to equality, addition is union."""

    __slots__ = ()


class MapList(list[Any]):
    """A list with x-kubernetes-list-type=map: elements are identified by their keys."""

    __slots__ = ("element_type", "keys")

    def __init__(self, elements: Iterable[Any], keys: Sequence[str], element_type: types.CelType) -> None:
        super().__init__(elements)
        self.keys = tuple(keys)
        self.element_type = element_type

    def key_of(self, element: Any) -> tuple[Any, ...]:
        """Return the identity of an element of this list."""
        if not isinstance(element, dict):
            return (element,)
        return tuple(element.get(key) for key in self.keys)


class Opaque:
    """A value of a library's own type (URL, IP, ...). Subclasses define the type and the equality."""

    __slots__ = ()
    cel_type: types.CelType

    def cel_size(self) -> int:
        """Return the size of the value in costs."""
        return 1


_TYPES: dict[type, types.CelType] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: types.LIST,
    SetList: types.LIST,
    MapList: types.LIST,
    dict: types.MAP,
    Timestamp: types.TIMESTAMP,
    Duration: types.DURATION,
    Optional: types.OPTIONAL,
}


def type_of(value: Any) -> types.CelType:
    """Return the runtime type, without parameters: the result of ``type(x)``."""
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    if isinstance(value, Opaque):
        return value.cel_type
    if isinstance(value, types.CelType):
        return types.TYPE
    if isinstance(value, dict):  # a caller's lazily filled mapping
        return types.MAP
    raise TypeError(f"{type(value).__name__} is not a CEL value")


def size(value: Any) -> int:
    """Return the size of a value in costs: its length, or one."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Opaque):
        return value.cel_size()
    if isinstance(value, Optional) and value is not NONE:
        return size(value.value)
    return 1


def map_keys(mapping: dict[Any, Any]) -> list[Any]:
    """Return the keys as CEL values."""
    if BoolKey.TRUE in mapping or BoolKey.FALSE in mapping:
        return [key.value if isinstance(key, BoolKey) else key for key in mapping]
    return list(mapping)


def plain(value: Any) -> Any:
    """Convert a result to plain lists and dicts, without the types of this package."""
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict):
        return {key: plain(value[_stored(key)]) for key in map_keys(value)}
    if isinstance(value, Optional) and value is not NONE:
        return Optional(plain(value.value))
    return value


def _stored(key: Any) -> Any:
    return BoolKey(key) if isinstance(key, bool) else key
