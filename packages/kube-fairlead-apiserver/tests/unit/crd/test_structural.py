from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead_apiserver import offload
from kube_fairlead_apiserver.cel import regex
from kube_fairlead_apiserver.crd.structural import count_compiled, validate_structural
from kube_fairlead_apiserver.registry.strategies.definitions import DefinitionStrategy


def test_a_few_patterns_that_are_too_large_end_the_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def refuse(pattern: str) -> regex.Regex:
        tried.append(pattern)
        raise regex.PatternError("error parsing regexp: expression too large")

    monkeypatch.setattr(regex, "compile_regex", refuse)
    properties = {f"p{number}": {"type": "string", "pattern": f"x{number}"} for number in range(300)}
    errors = validate_structural({"type": "object", "properties": properties}, FieldPath())
    assert [str(error) for error in errors] == [
        f'properties[p{number}].pattern: Invalid value: "x{number}": '
        "must be a valid regular expression, but isn't: error parsing regexp: expression too large"
        for number in range(3)
    ]
    assert len(tried) == 3


def test_patterns_are_counted_wherever_they_are() -> None:
    text = {"type": "string", "pattern": "x"}
    schema: dict[str, Any] = {
        "properties": {"a": text, "b": {"items": text}, "c": {"additionalProperties": text}},
        "anyOf": [{"properties": {"a": {"not": text}}}],
    }
    assert count_compiled(schema) == 4
    strategy = DefinitionStrategy()
    definition: dict[str, Any] = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}, {"name": "v2"}]}}
    assert strategy.weight(definition) < offload.LARGE_BYTES
    many = {"properties": {str(number): text for number in range(20)}}
    definition["spec"]["versions"][1]["schema"] = {"openAPIV3Schema": many}
    assert strategy.weight(definition) > offload.LARGE_BYTES


def test_rules_are_counted_and_defaults_that_they_judge() -> None:
    strategy = DefinitionStrategy()

    def weight(schema: dict[str, Any]) -> int:
        return strategy.weight({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}})

    rule = {"x-kubernetes-validations": [{"rule": "true"}]}
    assert weight({"properties": {"a": {"default": 1}}}) == 0
    assert 0 < weight({"properties": {"a": rule}}) < offload.LARGE_BYTES
    assert weight({"properties": {"a": {**rule, "default": 1}}}) > offload.LARGE_BYTES
    assert weight({"properties": {str(number): rule for number in range(20)}}) > offload.LARGE_BYTES
