"""What Go says of the same inputs: testdata/golang.jsonl was written by k8s.io/apimachinery v0.36.4 itself."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead.api import golang, names, quantity, selectors
from kube_fairlead.api import time as api_time

ROWS = [
    json.loads(line) for line in (pathlib.Path(__file__).parent / "testdata" / "golang.jsonl").read_text().splitlines()
]


def _quantity(text: str) -> dict[str, Any]:
    parsed = quantity.Quantity.parse(text)
    return {"str": str(parsed), "canon": parsed.canonical(), "format": parsed.family.value}


def _duration(text: str) -> dict[str, Any]:
    nanoseconds = api_time.parse_duration_nanoseconds(text)
    return {"ns": str(nanoseconds), "str": api_time.format_duration_nanoseconds(nanoseconds)}


def _labels(text: str) -> dict[str, Any]:
    matcher = selectors.parse_label_selector(text)
    return {"str": str(matcher), "reqs": [str(requirement) for requirement in matcher.requirements]}


def _messages(validate: Callable[[str], list[str]]) -> Callable[[str], dict[str, Any]]:
    return lambda text: {"msgs": validate(text) or None}


OPERATIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "quantity": _quantity,
    "duration": _duration,
    "time": lambda text: {"str": api_time.format_time(api_time.parse_time(text))},
    "microtime": lambda text: {"str": api_time.format_micro_time(api_time.parse_micro_time(text))},
    "labels": _labels,
    "fields": lambda text: {"str": str(selectors.parse_field_selector(text))},
    "quote": lambda text: {"str": golang.quote(text)},
    "float": lambda text: {"str": golang.print_float(float(text))},
    "json": lambda text: {"str": golang.json_text(json.loads(text))},
    "label": _messages(names.dns1123_label),
    "subdomain": _messages(names.dns1123_subdomain),
    "1035": _messages(names.dns1035_label),
    "qualified": _messages(names.qualified_name),
    "labelvalue": _messages(names.label_value),
    "portname": _messages(names.port_name),
    "configkey": _messages(names.config_map_key),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['op']}-{row['a'][:24]!r}")
def test_answers_as_go_does(row: dict[str, Any]) -> None:
    expected = {key: value for key, value in row.items() if key not in {"op", "a"}}
    try:
        actual = OPERATIONS[row["op"]](row["a"])
    except ValueError as error:
        actual = {"err": str(error)}
    assert actual == expected
