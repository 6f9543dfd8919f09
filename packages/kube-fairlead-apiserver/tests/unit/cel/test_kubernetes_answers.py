"""Our engine against Kubernetes' own: same type, same value, same words, expression by expression.

testdata/answers.go asked the CEL environment of k8s.io/apiserver 1.36.4; it says how to ask again.
"""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

import pytest

from kube_fairlead.api import golang
from kube_fairlead_apiserver import cel
from kube_fairlead_apiserver.cel import times, types, values
from kube_fairlead_apiserver.schema import expression_types, model

_DATA = pathlib.Path(__file__).parent / "testdata"
_SUBJECTS: dict[str, Any] = json.loads((_DATA / "subjects.json").read_text())
_ANSWERS = [json.loads(line) for line in (_DATA / "answers.jsonl").read_text().splitlines()]

# Where we differ on purpose, and why.
_DIFFERENT = {
    "{dyn(1):1, dyn(1u):2}": "numbers that compare equal are one key here",
    "in": "we stop at the first syntax error",
    "x.in": "we stop at the first syntax error",
    "'x'.find('(')": "we say that it is the pattern",
    "dyn('x').find(dyn('('))": "we say that it is the pattern",
    "self == self": "a list without items is opaque here, an error there",
    "oldSelf == self": "a list without items is opaque here, an error there",
    "optional.of(self.obj).?when": "Kubernetes loses the schema inside an optional; we keep it",
}


def _tagged(value: Any) -> Any:
    match value:
        case bool():
            return {"bool": str(value).lower()}
        case values.Uint():
            return {"uint": str(int(value))}
        case int():
            return {"int": str(value)}
        case float():
            return {"double": golang.print_float(value) if not math.isnan(value) else "NaN"}
        case str():
            return {"string": value}
        case bytes():
            return {"bytes": value.hex()}
        case None:
            return {"null": ""}
        case values.Duration():
            return {"duration": str(value.nanoseconds)}
        case values.Timestamp():
            return {"timestamp": times.format_timestamp(values.Timestamp(value.nanoseconds))}
        case values.Optional():
            return {"optional": None if value is values.NONE else _tagged(value.value)}
        case list():
            return {"list": [_tagged(element) for element in value]}
        case dict():
            return {"map": {_tagged_key(key): _tagged(item) for key, item in value.items()}}
        case types.CelType():
            return {"type": value.name}
        case _:
            return {"opaque": value.cel_type.name}


def _tagged_key(key: Any) -> str:
    (name, text), *_ = _tagged(key).items()
    return f"{name} {text}"


def _answer(on: str, expression: str) -> dict[str, Any]:
    subject = _SUBJECTS[on]
    bindings = dict(subject.get("vars", {}))
    variables = dict.fromkeys(bindings, types.DYN)
    if "schema" in subject:
        node = model.compile_schema(subject["schema"])
        self_type = expression_types.from_schema(node, name="selfType", resource_root=subject.get("root", False))
        variables |= {"self": self_type, "oldSelf": self_type}
        bindings |= {"self": subject["self"], "oldSelf": subject["self"]}
    answer: dict[str, Any] = {"on": on, "expr": expression}
    try:
        program = cel.Environment(variables).compile(expression)
    except cel.CompileError as error:
        return {**answer, "compile": str(error)}
    answer["type"] = str(program.result_type)
    try:
        return {**answer, "value": _tagged(program.evaluate(bindings))}
    except cel.EvaluationError as error:
        return {**answer, "error": str(error)}


@pytest.mark.parametrize("expected", _ANSWERS, ids=lambda answer: f"{answer['on']}: {answer['expr']}")
def test_answers_as_kubernetes_does(expected: dict[str, Any]) -> None:
    answer = _answer(expected["on"], expected["expr"])
    if expected["expr"] in _DIFFERENT:
        assert answer != expected, "no longer different: take it from the list"
    else:
        assert answer == expected
