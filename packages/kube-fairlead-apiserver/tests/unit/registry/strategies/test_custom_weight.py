from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver import offload
from kube_fairlead_apiserver.crd.definition import compile_kinds
from kube_fairlead_apiserver.registry.strategies.custom import CustomStrategy


def weight(schema: dict[str, Any], size: int) -> int:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    offload.begin_request("alice")
    offload.weigh(size)
    return CustomStrategy(compile_kinds({"spec": spec})["v1"], {}).weight({})


@pytest.mark.parametrize(
    ("rule", "size", "leaves"),
    [
        pytest.param("self.size() < 9", 60_000, False, id="no loop"),
        pytest.param("self.all(x, x > 0)", 900, False, id="a loop over little"),
        pytest.param("self.all(x, self.indexOf(x) > 0)", 8_000, True, id="a loop over much"),
        pytest.param("self.all(x, self.all(y, x > y))", 50, True, id="all pairs"),
    ],
)
def test_objects_whose_rules_go_through_lists_leave_the_event_loop(rule: str, size: int, leaves: bool) -> None:
    integers = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": rule}]}
    found = weight({"type": "object", "properties": {"spec": integers}}, size)
    assert (found >= offload.LARGE_BYTES) is leaves
