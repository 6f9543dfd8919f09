"""Checks that look for repeated values in a list look at each value a few times, however long the list is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead_apiserver.admission.builtin.service_ports import give_ports
from kube_fairlead_apiserver.admission.policies import type_check
from kube_fairlead_apiserver.admission.validation import policies
from kube_fairlead_apiserver.crd import schema_validation, spec_parts
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.strategies import certificates, pod_failure_policy, pod_validation

PATH = FieldPath("x")


class Counter:
    """Counts how often its texts and numbers are compared."""

    def __init__(self) -> None:
        self.comparisons = 0
        counter = self

        class Text(str):
            __slots__ = ()
            __hash__ = str.__hash__

            def __eq__(self, other: object) -> bool:
                counter.comparisons += 1
                return str.__eq__(self, other)

        class Number(int):
            __hash__ = int.__hash__

            def __eq__(self, other: object) -> bool:
                counter.comparisons += 1
                return int.__eq__(self, other)

        self.text: Callable[[int], str] = lambda number: Text(f"v{number}")
        self.number: Callable[[int], int] = Number


def usages(counter: Counter, count: int) -> list[Any]:
    return certificates._validate_usages([*map(counter.text, range(count)), "v0"])[-1:]


def conditions(counter: Counter, count: int) -> list[Any]:
    kinds = [{"type": kind, "status": "True"} for kind in [*map(counter.text, range(count)), "v0"]]
    return certificates._validate_conditions({"status": {"conditions": kinds}}, {})


def review_versions(counter: Counter, count: int) -> list[Any]:
    versions = [*map(counter.text, range(count)), "v0"]
    return list(spec_parts._validate_review_versions(versions, PATH, required=False))


def map_keys(counter: Counter, count: int) -> list[Any]:
    keys = [*map(counter.text, range(count)), "v0"]
    items = {"type": "object", "properties": {str(key): {"type": "string"} for key in keys}}
    return list(schema_validation._validate_map_list({"type": "array", "items": items}, keys, PATH))


def actions(counter: Counter, count: int) -> list[Any]:
    return policies._validate_actions([*map(counter.text, range(count)), "v0"], PATH)[-1:]


def exit_codes(counter: Counter, count: int) -> list[Any]:
    values = [*map(counter.number, range(1, count)), count - 1]
    problems = pod_failure_policy._validate_exit_codes({"operator": "In", "values": values}, {}, PATH)
    return [problem for problem in problems if "Duplicate" in str(problem)]


def tolerations(counter: Counter, count: int) -> list[Any]:
    old, new = (
        [{"key": counter.text(number), "operator": "Exists"} for number in order]
        for order in (range(count + 1), reversed(range(count)))
    )
    return pod_validation._tolerations_kept({"tolerations": new}, {"tolerations": old}, PATH)


def node_ports(counter: Counter, count: int) -> list[Any]:
    ports: list[dict[str, Any]] = [{"port": counter.number(number + 1)} for number in range(count)]
    spec = {"type": "NodePort", "ports": [*ports, {"port": count + 1, "nodePort": 1}]}
    return [give_ports(spec, {}, (), ())]


@pytest.mark.parametrize(
    "check", [usages, conditions, review_versions, map_keys, actions, exit_codes, tolerations, node_ports]
)
def test_a_list_twice_as_long_is_twice_the_work(check: Callable[[Counter, int], list[Any]]) -> None:
    short, long = Counter(), Counter()
    assert len(check(short, 100)) == 1  # the last value is wrong
    assert len(check(long, 200)) == 1
    assert long.comparisons <= 2 * short.comparisons + 50


def test_free_node_ports_are_given_in_order() -> None:
    spec: dict[str, Any] = {"type": "NodePort", "ports": [{"port": number} for number in range(1, 1001)]}
    assert give_ports(spec, {}, range(30000, 31000), ()) is None
    assert [port["nodePort"] for port in spec["ports"]] == list(range(31000, 32000))


def test_the_combinations_of_a_policy_rule_are_not_listed() -> None:
    class Counted(Catalog):
        looks = 0

        def get(self, group: str, version: str, plural: str) -> Any:
            self.looks += 1
            return super().get(group, version, plural)

    catalog = Counted()
    many = [str(number) for number in range(30)]
    rule = {"apiGroups": many, "apiVersions": many, "resources": many}
    assert type_check._kinds({"matchConstraints": {"resourceRules": [rule]}}, catalog) == []
    assert catalog.looks < 100
