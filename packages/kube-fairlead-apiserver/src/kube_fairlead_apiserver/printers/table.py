"""A `meta.k8s.io` Table of any kind: the columns of its printer, a row per object.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/printers/tablegenerator.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/rest/table.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/response.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.printers.cluster import CLUSTER
from kube_fairlead_apiserver.printers.columns import Printer, columns, dig, name_of
from kube_fairlead_apiserver.printers.network import NETWORK
from kube_fairlead_apiserver.printers.pods import POD
from kube_fairlead_apiserver.printers.rbac_and_admission import ACCESS
from kube_fairlead_apiserver.printers.storage import STORAGE
from kube_fairlead_apiserver.printers.workloads import WORKLOADS
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["DEFAULT", "PRINTERS", "printer_of", "table"]

PRINTERS: Mapping[tuple[str, str], Printer] = {
    ("", "Pod"): POD,
    **ACCESS,
    **CLUSTER,
    **NETWORK,
    **STORAGE,
    **WORKLOADS,
}


def _created_at(obj: Json, _now: dt.datetime) -> list[Any]:
    return [name_of(obj), dig(obj, "metadata", "creationTimestamp")]


# The columns of a kind without a printer (roles, CRDs, limit ranges).
DEFAULT = Printer(columns("Name", "Created At:date"), _created_at)


def printer_of(resource: Resource) -> Printer:
    """Return the printer of a kind: a custom resource brings its own columns."""
    if resource.custom is not None:
        own = resource.custom.columns
        return Printer(tuple(own.definitions), own.cells)
    return PRINTERS.get((resource.group, resource.kind), DEFAULT)


def table(
    resource: Resource,
    objects: Sequence[Json],
    *,
    now: dt.datetime,
    include: str = "Metadata",
    version: str = "v1",
    meta: Mapping[str, Any] | None = None,
    headers: bool = True,
) -> Json:
    """Return a Table of objects. In a watch only the first event needs headers.

    ``include`` is the part of the object in each row: None, Metadata or Object.
    """
    printer = printer_of(resource)
    rows = []
    for obj in objects:
        # The columns of a kind do not depend on the requested version.
        stored = obj if resource.conversion is None else resource.stored(obj)
        row: Json = {"cells": printer.cells(stored, now)}
        conditions = printer.conditions(stored) if printer.conditions is not None else []
        if conditions:
            row["conditions"] = conditions
        row["object"] = _included(obj, include, version)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": dict(meta or {}),
        "columnDefinitions": [dict(column) for column in printer.definitions] if headers else None,
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
