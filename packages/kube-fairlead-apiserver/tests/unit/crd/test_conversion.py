from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver.crd import conversion


def _object(version: str, name: str = "a", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": f"g.io/{version}", "kind": "K", "metadata": {"name": name, "uid": "u", **metadata}}


def test_strategy_none_changes_nothing_but_the_version() -> None:
    obj = {**_object("v1"), "spec": {"x": 1}}
    assert conversion.convert_none(obj, "g.io/v1") is obj
    assert conversion.convert_none(obj, "g.io/v2") == {**obj, "apiVersion": "g.io/v2"}
    assert obj["apiVersion"] == "g.io/v1"


def _ask() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    originals = [_object("v1", labels={"a": "1"}), _object("v2", "b"), _object("v1", "c")]
    return originals, conversion.conversion_review(originals, "g.io/v2", "uid-1")


def _answer(*objects: Any, **response: Any) -> dict[str, Any]:
    good = {"uid": "uid-1", "result": {"status": "Success"}, "convertedObjects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {**good, **response}}


def test_a_webhook_converts_what_needs_it() -> None:
    originals, review = _ask()
    assert [obj["metadata"]["name"] for obj in review["request"]["objects"]] == ["a", "c"]
    converted = [_object("v2", labels={"b": "2"}, creationTimestamp="x"), {**_object("v2", "c"), "spec": 1}]
    first, second, third = conversion.read_response(review, _answer(*converted), originals)
    assert first == _object("v2", labels={"b": "2"})
    assert second is originals[1]
    assert third == {**_object("v2", "c"), "spec": 1}


def test_labels_the_webhook_left_out_go() -> None:
    originals, review = _ask()
    first, *_ = conversion.read_response(review, _answer(_object("v2"), _object("v2", "c")), originals)
    assert first["metadata"] == {"name": "a", "uid": "u"}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({}, "invalid response from webhook: expected apiextensions.k8s.io/v1, Kind=ConversionReview, got , Kind="),
        ({"kind": "ConversionReview"}, "invalid response from webhook: no response provided"),
        (_answer(uid="x"), 'invalid response from webhook: expected response.uid="uid-1", got "x"'),
        (_answer(result={"status": "Failure", "message": "no"}), "no"),
        (_answer(result={}), "unknown error"),
        (_answer(convertedObjects=None), "webhook returned 0 objects, expected 2"),
        (_answer(1, 2), "invalid converted object at index 0: invalid type, expected=Unstructured"),
        (
            _answer(_object("v3"), _object("v2", "c")),
            "invalid converted object at index 0: invalid apiVersion, expected=g.io/v2, got=g.io/v3",
        ),
        (
            _answer({**_object("v2"), "kind": "L"}, _object("v2", "c")),
            "invalid converted object at index 0: invalid kind, expected=K, got=L",
        ),
        (
            _answer(_object("v2"), _object("v2", "z")),
            "invalid converted object at index 2: must have the same name: 'c' != 'z'",
        ),
        (
            _answer({**_object("v2"), "metadata": None}, _object("v2", "c")),
            "invalid converted object at index 0: invalid metadata of type NoneType in input object",
        ),
    ],
)
def test_a_webhook_that_misbehaves_is_refused(answer: Any, problem: str) -> None:
    originals, review = _ask()
    with pytest.raises(conversion.ConversionError) as error:
        conversion.read_response(review, answer, originals)
    assert str(error.value) == problem


def test_both_sides_agree_on_a_review_version() -> None:
    crd: dict[str, Any] = {"spec": {"conversion": {"webhook": {"conversionReviewVersions": ["v9", "v1beta1", "v1"]}}}}
    assert conversion.review_version(crd) == "v1beta1"
    assert conversion.review_version({"spec": {}}) is None
