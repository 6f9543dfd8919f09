"""What every typed kind is made of: frozen structs whose fields carry Kubernetes' spelling on the wire.

A kind names the fields Fairlead works with, no more. What it does not name is not lost: `kube_fairlead.api.wire` keeps
the original bytes beside the object and lays changes over them.

Types follow Go's: a pointer is `X | None`, a string is `""` when absent, a list is a tuple, a map is a dict. Neither is
ever changed in place; `wire.replace` makes a changed copy.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, ClassVar, dataclass_transform

import msgspec

__all__ = ["IntOrString", "MicroPrecision", "MicroTime", "Part", "Quantities", "Time", "always", "mapping", "named"]


class MicroPrecision:
    """Marks a time that is written with six digits after the point."""


# metav1.Time: read with any precision, written in whole seconds.
Time = dt.datetime
# metav1.MicroTime: written with exactly six digits, without which Kubernetes refuses it.
MicroTime = Annotated[dt.datetime, MicroPrecision]
IntOrString = int | str
# Resource quantities as sent: a server answers with strings, a manifest may hold numbers. `Quantity.parse(str(value))`.
Quantities = dict[str, str | int | float]


# The decorator declares to type checkers what msgspec passes on to subclasses anyway: they are frozen and keyword-only.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A JSON object with known fields.

    `MERGE_KEY` names the fields that identify the items of a list, so that an item is found again after the list
    changed. It may be empty.
    """

    MERGE_KEY: ClassVar[tuple[str, ...]] = ()


def named(wire_name: str, default: Any = "") -> Any:
    """A field whose spelling on the wire is not plain camel case, such as `podIP`."""
    return msgspec.field(name=wire_name, default=default)


def mapping() -> Any:
    """A map that is empty when absent."""
    return msgspec.field(default_factory=dict)


def always(default: Any, *, name: str | None = None) -> Any:
    """A field that is written even when it has its default, as Go writes fields without `omitempty`."""
    return msgspec.field(default_factory=lambda: default, name=name)
