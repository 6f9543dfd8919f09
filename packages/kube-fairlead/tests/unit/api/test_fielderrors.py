from __future__ import annotations

import pytest

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import (
    MAX_PATH_CHARACTERS,
    MAX_PROBLEM_CHARACTERS,
    OMIT_VALUE,
    ErrorType,
    FieldError,
    FieldPath,
    aggregate,
    first_problems,
)
from kube_fairlead.api.gvk import GroupKind

P = FieldPath("spec", "x")


def test_paths_print_as_kubernetes_does() -> None:
    path = FieldPath("spec").child("containers").index(0).child("env", "name").key("a.b/c")
    assert str(path) == "spec.containers[0].env.name[a.b/c]"
    assert FieldPath("spec").item("containers", 0) == FieldPath("spec").child("containers").index(0)
    assert str(FieldPath().item("containers", 0)) == "containers[0]"
    assert str(FieldPath()) == "<nil>"
    assert str(FieldPath().child("key")) == "key"
    assert FieldPath("a").child("b") == FieldPath("a", "b")
    assert hash(FieldPath("a").child("b")) == hash(FieldPath("a", "b"))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FieldError.required(P), "spec.x: Required value"),
        (FieldError.required(P, "must be given"), "spec.x: Required value: must be given"),
        (FieldError.invalid(P, "a", "bad"), 'spec.x: Invalid value: "a": bad'),
        (FieldError.invalid(P, 5, "bad"), "spec.x: Invalid value: 5: bad"),
        (FieldError.invalid(P, True, "bad"), "spec.x: Invalid value: true: bad"),
        (FieldError.invalid(P, 1e21, "bad"), "spec.x: Invalid value: 1e+21: bad"),
        (FieldError.invalid(P, None, "bad"), "spec.x: Invalid value: null: bad"),
        (FieldError.invalid(P, {"b": "<", "a": [1]}, "bad"), 'spec.x: Invalid value: {"a":[1],"b":"\\u003c"}: bad'),
        (FieldError.invalid(P, OMIT_VALUE, "bad"), "spec.x: Invalid value: bad"),
        (FieldError.type_invalid(P, "a", "bad"), 'spec.x: Invalid value: "a": bad'),
        (FieldError.forbidden(P, "no"), "spec.x: Forbidden: no"),
        (FieldError.duplicate(P, "a"), 'spec.x: Duplicate value: "a"'),
        (FieldError.not_found(P, "a"), 'spec.x: Not found: "a"'),
        (FieldError.not_supported(P, "a", ["b", "c"]), 'spec.x: Unsupported value: "a": supported values: "b", "c"'),
        (FieldError.not_supported(P, "a", []), 'spec.x: Unsupported value: "a"'),
        (FieldError.too_long(P, "a", 1), "spec.x: Too long: may not be more than 1 byte"),
        (FieldError.too_long(P, "a", 63), "spec.x: Too long: may not be more than 63 bytes"),
        (FieldError.too_long(P, "a", -1), "spec.x: Too long: value is too long"),
        (FieldError.too_long_characters(P, "a", 2), "spec.x: Too long: may not be more than 2 characters"),
        (FieldError.too_many(P, 3, 1), "spec.x: Too many: 3: must have at most 1 item"),
        (FieldError.too_many(P, -1, -1), "spec.x: Too many: has too many items"),
        (FieldError.internal(P, ValueError("boom")), "spec.x: Internal error: boom"),
    ],
)
def test_messages(error: FieldError, text: str) -> None:
    assert str(error) == text


def test_cause() -> None:
    assert FieldError.invalid(P, "a", "bad").to_cause() == {
        "reason": "FieldValueInvalid",
        "message": 'Invalid value: "a": bad',
        "field": "spec.x",
    }
    assert {str(kind) for kind in ErrorType} >= {"FieldValueRequired", "FieldValueTypeInvalid", "InternalError"}


def test_aggregate_joins_without_doubles() -> None:
    one, two = FieldError.required("a"), FieldError.required("b")
    assert aggregate([one, one]) == "a: Required value"
    assert aggregate([one, two, one]) == "[a: Required value, b: Required value]"


def test_what_one_answer_holds_is_limited() -> None:
    few = [FieldError.invalid(FieldPath("a").index(n), "x" * 100, "wrong") for n in range(1000)]
    assert first_problems(few) == (few, 0)
    many = [FieldError.invalid(FieldPath("a").index(n), "x" * 100, "wrong") for n in range(100_000)]
    answer = errors.invalid(GroupKind("", "Thing"), "a", many)
    causes = (answer.details or {})["causes"]
    assert causes == [problem.to_cause() for problem in many[: len(causes)]]
    assert str(answer).endswith(f", and {len(many) - len(causes)} more]")
    assert MAX_PROBLEM_CHARACTERS / 2 < len(str(answer)) < MAX_PROBLEM_CHARACTERS * 1.1


def test_an_error_that_is_too_long_by_itself_leaves_its_value_out() -> None:
    answer = errors.invalid(GroupKind("", "Thing"), "a", [FieldError.invalid("spec.x", "x" * 1_000_000, "wrong")])
    assert str(answer) == 'Thing "a" is invalid: spec.x: Invalid value: wrong'


def test_a_key_of_a_megabyte_is_not_repeated_below() -> None:
    path = FieldPath("spec").key("x" * 1_000_000).child("a").index(1)
    assert str(path) == ("spec[" + "x" * 1_000_000)[:MAX_PATH_CHARACTERS]
