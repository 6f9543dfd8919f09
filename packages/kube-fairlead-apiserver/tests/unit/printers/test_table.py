from __future__ import annotations

import datetime as dt
import gzip
import json
import pathlib
from typing import Any

import pytest

from kube_fairlead.api.time import parse_time
from kube_fairlead_apiserver import printers
from kube_fairlead_apiserver.crd.definition import compile_kinds
from kube_fairlead_apiserver.printers.table import PRINTERS, printer_of
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.schema.model import SchemaNode
from kube_fairlead_apiserver.types.resources import BuiltinResource, builtin_resources

# Objects of every kind and the tables that a kube-apiserver v1.36.4 made of them.
TABLES: list[dict[str, Any]] = json.loads(
    gzip.decompress((pathlib.Path(__file__).parent / "testdata" / "tables.json.gz").read_bytes())
)
NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)


def resource(group: str, kind: str, **more: Any) -> Resource:
    return Resource(
        group, "v1", kind.lower() + "s", kind, namespaced=True, strategy=Strategy(), schema=SchemaNode, **more
    )


POD = resource("", "Pod")


def pod(**more: Any) -> dict[str, Any]:
    metadata = {"name": "web", "creationTimestamp": "2026-11-15T11:58:30Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata} | more


@pytest.mark.parametrize("expected", TABLES, ids=lambda table: f"{table['group']}/{table['kind']}")
def test_tables_are_those_of_kubernetes(expected: dict[str, Any]) -> None:
    objects = [row["object"] for row in expected["rows"]]
    shown = printers.table(
        resource(expected["group"], expected["kind"]), objects, now=parse_time(expected["now"]), include="Object"
    )
    columns = [
        {key: value for key, value in column.items() if key != "description"} for column in shown["columnDefinitions"]
    ]
    assert columns == expected["columns"]
    assert shown["rows"] == expected["rows"]


def test_every_listable_kind_was_compared() -> None:
    compared = {(table["group"], table["kind"]) for table in TABLES}
    listable = {(found.group, found.kind) for found in builtin_resources() if found.list_kind}
    assert listable - compared == {("networking.k8s.io", "IPAddress")}


def test_every_printer_belongs_to_a_kind_that_is_served() -> None:
    served = {(found.group, found.kind) for found in builtin_resources()} | {("autoscaling", "Scale")}
    assert PRINTERS.keys() <= served


def test_an_address_names_its_parent() -> None:
    address = {
        "metadata": {"name": "10.0.0.1", "creationTimestamp": "2026-11-15T11:00:00Z"},
        "spec": {"parentRef": {"group": "", "resource": "services", "namespace": "shop", "name": "web"}},
    }
    shown = printers.table(resource("networking.k8s.io", "IPAddress"), [address], now=NOW)
    assert shown["rows"][0]["cells"] == ["10.0.0.1", "services/shop/web", "60m"]


@pytest.mark.parametrize("known", builtin_resources(), ids=lambda found: f"{found.group}/{found.kind}")
@pytest.mark.parametrize("obj", [{}, {"metadata": {"name": "x"}, "spec": {}, "status": {}}, {"spec": None}])
def test_a_bare_object_still_has_a_cell_for_each_column(known: BuiltinResource, obj: dict[str, Any]) -> None:
    printer = printer_of(resource(known.group, known.kind))
    assert len(printer.cells(obj, NOW)) == len(printer.definitions)


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("None", None),
        ("Object", pod()),
        (
            "Metadata",
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod()["metadata"]},
        ),
    ],
)
def test_a_row_carries_what_is_asked_for(include: str, expected: Any) -> None:
    shown = printers.table(POD, [pod()], now=NOW, include=include)
    assert shown["rows"][0]["object"] == expected


def test_a_table_says_its_version_and_where_the_list_goes_on() -> None:
    shown = printers.table(POD, [], now=NOW, version="v1beta1", meta={"resourceVersion": "7", "continue": "x"})
    assert (shown["kind"], shown["apiVersion"]) == ("Table", "meta.k8s.io/v1beta1")
    assert shown["metadata"] == {"resourceVersion": "7", "continue": "x"}
    assert shown["rows"] == []


def test_only_the_first_event_of_a_watch_has_headers() -> None:
    assert printers.table(POD, [pod()], now=NOW, headers=False)["columnDefinitions"] is None
    assert printers.table(POD, [pod()], now=NOW)["columnDefinitions"][0]["name"] == "Name"


def test_custom_resources_bring_their_own_columns() -> None:
    size = {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}
    names = {"plural": "widgets", "kind": "Widget"}
    versions = [{"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": [size]}]
    crd = {"spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}}
    widgets = resource("example.com", "Widget", custom=compile_kinds(crd)["v1"])
    widget = {"metadata": {"name": "w", "creationTimestamp": "2026-11-15T11:00:00Z"}, "spec": {"size": 3}}
    shown = printers.table(widgets, [widget], now=NOW)
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Size"]
    assert shown["rows"][0]["cells"] == ["w", 3]


@pytest.mark.parametrize(
    ("created", "expected"),
    [
        ("2026-11-15T11:59:59Z", "1s"),
        ("2026-11-15T12:00:01Z", "0s"),
        ("2026-11-15T12:00:30Z", "<invalid>"),
        ("2026-11-15T11:55:00Z", "5m"),
        ("2026-11-14T11:00:00Z", "25h"),
        (None, "<unknown>"),
        ("yesterday", "<unknown>"),
    ],
)
def test_ages(created: str | None, expected: str) -> None:
    shown = printers.table(POD, [pod(metadata={"name": "web", "creationTimestamp": created})], now=NOW)
    assert shown["rows"][0]["cells"][4] == expected
