from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead_apiserver.crd.printer_columns import Columns, human_duration

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def test_cells_take_the_type_of_their_column() -> None:
    columns = Columns(
        [
            {"name": "Text", "type": "string", "jsonPath": ".spec.n", "priority": 1, "description": "d"},
            {"name": "Int", "type": "integer", "jsonPath": ".spec.f"},
            {"name": "Num", "type": "number", "jsonPath": ".spec.n"},
            {"name": "Bool", "type": "boolean", "jsonPath": ".spec.b"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
            {"name": "Object", "type": "string", "jsonPath": ".spec"},
            {"name": "Wrong", "type": "integer", "jsonPath": ".spec.b"},
            {"name": "Missing", "type": "string", "jsonPath": ".nope"},
            {"name": "Misfit", "type": "string", "jsonPath": ".spec.n[0]"},
            {"name": "Never", "type": "date", "jsonPath": ".spec.empty"},
            {"name": "Bad", "type": "date", "jsonPath": ".spec.bad"},
        ]
    )
    obj = {
        "metadata": {"name": "x", "creationTimestamp": "2026-01-01T21:00:00Z"},
        "spec": {"n": 5, "f": 2.7, "b": True, "empty": "", "bad": "then"},
        "status": {"conditions": [{"type": "Other", "status": "no"}, {"type": "Ready", "status": "True"}]},
    }
    cells = columns.cells(obj, NOW)
    assert cells[:7] == ["x", "5", 2, 5.0, True, "3h", "True"]
    assert cells[7] == '{"b":true,"bad":"then","empty":"","f":2.7,"n":5}'
    assert cells[8:] == [None, None, None, "<unknown>", "<invalid>"]
    assert columns.definitions[0]["name"] == "Name"
    assert columns.definitions[1] == {
        "name": "Text",
        "type": "string",
        "format": "",
        "description": "d",
        "priority": 1,
    }
    assert columns.definitions[2]["description"] == "Custom resource definition column (in JSONPath format): .spec.f"


def test_without_columns_there_is_the_age() -> None:
    columns = Columns([])
    assert [column["name"] for column in columns.definitions] == ["Name", "Age"]
    assert columns.cells({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T23:59:58Z"}}, NOW) == ["x", "2s"]


def test_a_path_that_cannot_be_read_ends_the_columns() -> None:
    columns = Columns(
        [{"name": "A", "type": "string", "jsonPath": ".a["}, {"name": "B", "type": "string", "jsonPath": ".b"}]
    )
    assert [column["name"] for column in columns.definitions] == ["Name"]
    assert columns.cells({"metadata": {"name": "x"}}, NOW) == ["x"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (180 * 60, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_durations_read_as_in_kubectl(seconds: int, text: str) -> None:
    assert human_duration(dt.timedelta(seconds=seconds)) == text
