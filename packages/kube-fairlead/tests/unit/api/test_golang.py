from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import golang


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": "<&>"}, '{"a":"\\u003c\\u0026\\u003e","b":1}'),
        (1.0, "1"),
        ([0.1, -2.0, (123456789.0,)], "[0.1,-2,[123456789]]"),
        ({"a": {"b": 1e20}}, '{"a":{"b":100000000000000000000}}'),
        (1e21, "1e+21"),
        (1.5e22, "1.5e+22"),
        (0.000001, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (0.0, "0"),
        (-0.0, "-0"),
        (float("inf"), "null"),
    ],
)
def test_json_as_go_marshals_it(value: Any, text: str) -> None:
    assert golang.json_text(value) == text
