"""A `meta.k8s.io` Table of any kind: the columns of its printer, a row per object."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fairlead.apiserver.printers.access import ACCESS
from fairlead.apiserver.printers.cluster import CLUSTER
from fairlead.apiserver.printers.columns import Json, Printer, columns, dig, name_of
from fairlead.apiserver.printers.network import NETWORK
from fairlead.apiserver.printers.pods import POD
from fairlead.apiserver.printers.storage import STORAGE
from fairlead.apiserver.printers.workloads import WORKLOADS

__all__ = ["Columns", "Tabular", "printer_of", "table"]

PRINTERS: Mapping[tuple[str, str], Printer] = {
    ("", "Pod"): POD,
    **ACCESS,
    **CLUSTER,
    **NETWORK,
    **STORAGE,
    **WORKLOADS,
}


class Columns(Protocol):
    """What a table needs of a kind: a `columns.Printer`, or the columns that a CRD declares."""

    @property
    def definitions(self) -> Sequence[Json]:
        """The columns."""
        ...

    @property
    def cells(self) -> Any:
        """A function from an object and the present time to the cells of its row."""
        ...


class Tabular(Protocol):
    """The part of a resource that a table depends on."""

    group: str
    kind: str


def _created_at(obj: Json, _now: dt.datetime) -> list[Any]:
    return [name_of(obj), dig(obj, "metadata", "creationTimestamp")]


# What Kubernetes shows of a kind that has no printer of its own (roles, CRDs, limit ranges).
DEFAULT = Printer(columns("Name", "Created At:date"), _created_at)


def printer_of(group: str, kind: str) -> Printer:
    """The printer of a built-in kind."""
    return PRINTERS.get((group, kind), DEFAULT)


def table(
    resource: Tabular,
    objects: Sequence[Json],
    *,
    now: dt.datetime,
    include: str = "Metadata",
    version: str = "v1",
    meta: Mapping[str, Any] | None = None,
    headers: bool = True,
    own: Columns | None = None,
) -> Json:
    """A Table. ``own`` are the columns of a custom resource; a watch has headers in its first event only.

    ``include`` says what each row carries of its object: None, Metadata or Object.
    """
    chosen: Columns = own or printer_of(resource.group, resource.kind)
    conditions = chosen.conditions if isinstance(chosen, Printer) else None
    rows = []
    for obj in objects:
        row: Json = {"cells": chosen.cells(obj, now)}
        told = conditions(obj) if conditions is not None else []
        if told:
            row["conditions"] = told
        row["object"] = _included(obj, include, version)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": dict(meta or {}),
        "columnDefinitions": [dict(column) for column in chosen.definitions] if headers else None,
        "rows": rows,
    }


def _included(obj: Json, include: str, version: str) -> Json | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj.get("metadata", {}),
    }
