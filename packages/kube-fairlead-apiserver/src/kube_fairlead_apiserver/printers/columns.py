"""The common parts of printers: column definitions, and the texts that cells share.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/printers/internalversion/printers.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/duration/duration.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from kube_fairlead.api import selectors, time
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.quantity import Quantity, QuantityError
from kube_fairlead_apiserver.crd.printer_columns import human_duration

__all__ = [
    "NONE",
    "UNKNOWN",
    "UNSET",
    "Cells",
    "Printer",
    "age",
    "columns",
    "containers",
    "controller_of",
    "count_text",
    "dig",
    "has_condition",
    "labels_text",
    "listed",
    "name_of",
    "quantity_text",
    "selector_text",
    "since",
]

Cells = Callable[[Json, dt.datetime], list[Any]]

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"


class Printer(msgspec.Struct, frozen=True):
    """The columns of a kind, the cells of one object, and the conditions of its row (a completed pod is dimmed)."""

    definitions: tuple[Json, ...]
    cells: Cells
    conditions: Callable[[Json], list[Json]] | None = None


def columns(*names: str) -> tuple[Json, ...]:
    """Column definitions: ``Desired:integer`` has a type, ``Selector+`` is shown by ``-o wide`` only."""
    definitions = []
    for text in names:
        name, _, kind = text.removesuffix("+").partition(":")
        definitions.append(
            {
                "name": name,
                "type": kind or "string",
                "format": "name" if name in {"Name", "Attacher"} else "",
                "description": "",
                "priority": 1 if text.endswith("+") else 0,
            }
        )
    return tuple(definitions)


def dig(obj: Mapping[str, Any], *path: str, default: Any = None) -> Any:
    """Return a value inside an object; the default when it, or anything on the way to it, is absent or null."""
    value: Any = obj
    for key in path:
        if not isinstance(value, Mapping):
            return default
        value = value.get(key)
    return default if value is None else value


def listed(obj: Mapping[str, Any], *path: str) -> list[Any]:
    """Return a list inside an object; empty when it is not there."""
    value = dig(obj, *path, default=[])
    return value if isinstance(value, list) else []


def name_of(obj: Json) -> str:
    """Return the object's name."""
    return str(dig(obj, "metadata", "name", default=""))


def since(text: Any, now: dt.datetime) -> str:
    """Return the age of a time, with the two units that kubectl shows."""
    if not text:
        return UNKNOWN
    try:
        return human_duration(now - time.parse_time(text))
    except (ValueError, TypeError):
        return UNKNOWN


def age(obj: Json, now: dt.datetime) -> str:
    """How long ago the object was created."""
    return since(dig(obj, "metadata", "creationTimestamp"), now)


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Labels as ``a=b,c=d``."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Mapping[str, Any] | None, *, empty: str = NONE, invalid: str = "<error>") -> str:
    """Return a LabelSelector as the string that selects the same."""
    try:
        return str(selectors.label_selector_from(selector)) or empty
    except ValueError:
        return invalid


def quantity_text(value: Any) -> str:
    """Return a quantity as Kubernetes prints it; an absent one is zero."""
    if value is None:
        return "0"
    try:
        return str(Quantity.parse(str(value)))
    except QuantityError:
        return str(value)


def containers(template: Mapping[str, Any] | None) -> tuple[str, str]:
    """Names and images of a pod template's containers."""
    found = listed(template or {}, "spec", "containers")
    names = ",".join(dig(container, "name", default="") for container in found)
    return names, ",".join(dig(container, "image", default="") for container in found)


def has_condition(obj: Json, kind: str) -> bool:
    """Return whether the first condition of this type is true."""
    for condition in listed(obj, "status", "conditions"):
        if condition.get("type") == kind:
            return bool(condition.get("status") == "True")
    return False


def controller_of(obj: Json) -> Json | None:
    """Return the owner that controls the object."""
    owners: Iterable[Json] = listed(obj, "metadata", "ownerReferences")
    return next((owner for owner in owners if owner.get("controller")), None)


def count_text(items: list[str], *, most: int = 3, empty: str = UNSET) -> str:
    """Return the first few of many."""
    text = ",".join(items[:most])
    if len(items) > most:
        return f"{text} + {len(items) - most} more..."
    return text or empty
