from __future__ import annotations

import copy
import datetime as dt
import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api import errors
from kube_fairlead_apiserver.patch.apply import fieldset, managers, server_side_apply
from kube_fairlead_apiserver.patch.apply.extraction import applied_fields
from kube_fairlead_apiserver.patch.apply.manager_versions import Version
from kube_fairlead_apiserver.patch.apply.managers import Identity, with_managed_fields
from kube_fairlead_apiserver.patch.apply.server_side_apply import apply
from kube_fairlead_apiserver.patch.apply.update_tracking import UNTRACKED, compare_tracked, track_update
from kube_fairlead_apiserver.schema.model import ANYTHING, compile_schema

Json = dict[str, Any]

TESTDATA = pathlib.Path(__file__).parent / "testdata"
THING = compile_schema(json.loads((TESTDATA / "thing.json").read_text()))
SEQUENCES = [json.loads(line) for line in (TESTDATA / "field_managers.jsonl").read_text().splitlines()]
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def thing(spec: Any = None, **metadata: Any) -> Json:
    value: Json = {"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"name": "t", **metadata}}
    return value if spec is None else value | {"spec": spec}


def applied(
    live: Json | None, config: Any, manager: str, *, force: bool = False, now: dt.datetime = NOW, **options: Any
) -> Json:
    before = copy.deepcopy((live, config))
    value, entries = apply(
        THING, live, config, manager, force=force, api_version="example.io/v1", kind="Thing", now=now, **options
    )
    assert (live, config) == before
    assert value["metadata"].get("managedFields", []) == entries
    return stored(value)


def updated(live: Json | None, new: Json, manager: str) -> Json:
    return stored(with_managed_fields(new, track_update(THING, live, new, manager, "example.io/v1", NOW)))


def stored(value: Json) -> Json:
    if "uid" in value["metadata"]:
        return value
    return {**value, "metadata": {**value["metadata"], "uid": "u1"}}


def owners(value: Json) -> dict[str, Any]:
    return {found["manager"]: found["fieldsV1"] for found in value["metadata"].get("managedFields", ())}


def without_empty(value: Any) -> Any:
    """Emptied containers are null in Kubernetes at this point, and gone or empty here."""
    if isinstance(value, dict):
        members = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in members.items() if item not in ({}, [], None)}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("number", range(len(SEQUENCES)))
def test_as_kubernetes_recorded_it(number: int) -> None:
    """The answers of Kubernetes 1.36's own field manager to the same writes, step by step."""
    live: Json | None = None
    for step in SEQUENCES[number]:
        options = {"subresource": step.get("subresource", ""), "reset_fields": step.get("resetFields")}
        if step["op"] == "update":
            new = step["object"]
            if live is not None:
                kept = {name: live["metadata"][name] for name in ("managedFields", "uid") if name in live["metadata"]}
                new = {**new, "metadata": {**new["metadata"], **kept}}
            entries = track_update(THING, live, new, step["manager"], "example.io/v1", NOW, **options)
            result = stored(with_managed_fields(new, entries))
        elif "conflicts" in step:
            with pytest.raises(errors.Conflict) as caught:
                applied(live, step["object"], step["manager"], force=step["force"], **options)
            assert sorted([cause["message"], cause["field"]] for cause in caught.value.causes) == step["conflicts"]
            assert caught.value.message == step.get("message", caught.value.message)
            continue
        else:
            result = applied(live, step["object"], step["manager"], force=step["force"], **options)
        bare = {name: item for name, item in result["metadata"].items() if name not in {"managedFields", "uid"}}
        assert without_empty({**result, "metadata": bare}) == step["result"]
        found = [
            {name: item for name, item in entry.items() if name != "fieldsType"} | {"time": "time" in entry}
            for entry in result["metadata"].get("managedFields", [])
        ]

        def order(entry: Json) -> Any:
            return entry["operation"], entry["manager"], entry.get("subresource", "")

        assert sorted(found, key=order) == sorted(step["managedFields"], key=order)
        live = result


def test_create() -> None:
    value = applied(None, thing({"a": "x", "m": {"k": "v"}}, labels={"l": "1"}), "me")
    assert value["spec"] == {"a": "x", "m": {"k": "v"}}
    assert value["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "example.io/v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": {"f:a": {}, "f:m": {"f:k": {}}}},
        }
    ]


def test_applying_the_same_again_is_no_change_at_all() -> None:
    config = thing({"a": "x", "items": [{"name": "i", "v": "1"}]})
    live = applied(None, config, "me")
    assert apply(THING, live, config, "me", force=False, api_version="example.io/v1", kind="Thing", now=LATER) == (
        live,
        live["metadata"]["managedFields"],
    )
    assert applied(live, config, "me", now=LATER) is live


def test_what_is_no_longer_applied_goes() -> None:
    live = applied(None, thing({"a": "x", "m": {"k": "1", "l": "2"}, "items": [{"name": "i"}, {"name": "j"}]}), "me")
    after = applied(live, thing({"m": {"k": "1"}, "items": [{"name": "j"}]}), "me", now=LATER)
    assert after["spec"] == {"m": {"k": "1"}, "items": [{"name": "j"}]}
    assert after["metadata"]["managedFields"][0]["time"] == "2026-01-02T00:00:00Z"


def test_what_others_own_stays() -> None:
    live = applied(None, thing({"a": "x", "n": 1}), "one")
    live = applied(live, thing({"a": "x"}), "two")
    assert owners(live) == {"one": {"f:spec": {"f:a": {}, "f:n": {}}}, "two": {"f:spec": {"f:a": {}}}}
    after = applied(live, thing({}), "one")
    assert after["spec"] == {"a": "x"}
    assert owners(after) == {"one": {"f:spec": {}}, "two": {"f:spec": {"f:a": {}}}}


def test_giving_everything_up_removes_the_entry() -> None:
    live = updated(applied(None, thing({"a": "x"}), "me"), thing({"a": "x", "n": 1}), "other")
    after = applied(live, thing(), "me")
    assert after["spec"] == {"n": 1}
    assert owners(after) == {"other": {"f:spec": {"f:n": {}}}}


def test_a_conflict_names_owner_and_field() -> None:
    live = updated(None, thing({"m": {"a": "1"}}), "kubectl")
    with pytest.raises(errors.Conflict) as caught:
        applied(live, thing({"m": {"a": "2"}}), "me")
    assert caught.value.code == 409
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl" using example.io/v1: .spec.m.a'
    )
    assert caught.value.details == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "kubectl" using example.io/v1',
                "field": ".spec.m.a",
            }
        ]
    }


def test_several_conflicts_are_listed_by_owner() -> None:
    live = applied(None, thing({"a": "1", "items": [{"name": "i", "v": "1"}]}), "b")
    live = updated(live, thing({"a": "1", "n": 1, "items": [{"name": "i", "v": "1"}]}), "a")
    with pytest.raises(errors.Conflict) as caught:
        applied(live, thing({"a": "2", "n": 2, "items": [{"name": "i", "v": "2"}]}), "me")
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "a" using example.io/v1:\n'
        "- .spec.n\n"
        'conflicts with "b":\n'
        "- .spec.a\n"
        '- .spec.items[name="i",port=80].v'
    )


def test_force_takes_the_field() -> None:
    live = updated(None, thing({"a": "1"}), "kubectl")
    after = applied(live, thing({"a": "2"}), "me", force=True)
    assert after["spec"] == {"a": "2"}
    assert owners(after) == {"me": {"f:spec": {"f:a": {}}}, "kubectl": {"f:spec": {}}}


def test_an_object_nobody_tracked_belongs_to_its_past() -> None:
    live = stored(thing({"a": "1"}))
    with pytest.raises(errors.Conflict, match=r'"before-first-apply" using example.io/v1: .spec.a'):
        applied(live, thing({"a": "2"}), "me")
    after = applied(live, thing({"a": "1"}), "me")
    assert set(owners(after)) == {"before-first-apply", "me"}


def test_order_of_list_items() -> None:
    live = updated(None, thing({"items": [{"name": name} for name in "abc"]}), "server")
    after = applied(live, thing({"items": [{"name": name} for name in "cxa"]}), "me")
    assert [item["name"] for item in after["spec"]["items"]] == ["b", "c", "x", "a"]


def test_kubectl_takes_over_what_it_applied_from_the_client_side() -> None:
    config = thing({"a": "1", "n": 1})
    live = updated(
        None, thing({"a": "1", "n": 1}, annotations={LAST_APPLIED: json.dumps(config)}), "kubectl-client-side-apply"
    )
    with pytest.raises(errors.Conflict):
        applied(live, thing({"a": "2"}), "someone")
    after = applied(live, thing({"a": "2", "n": 1}), "kubectl")
    assert after["spec"] == {"a": "2", "n": 1}
    renewed = after["metadata"]["annotations"][LAST_APPLIED]
    assert renewed.endswith("}\n")
    assert json.loads(renewed) == thing({"a": "2", "n": 1})


@pytest.mark.parametrize(
    "annotation", ["", "{", "[]", '{"apiVersion":"other/v1"}', '{"apiVersion":"example.io/v1","spec":{"a":5}}']
)
def test_a_useless_annotation_allows_nothing(annotation: str) -> None:
    live = updated(None, thing({"a": "1"}, annotations={LAST_APPLIED: annotation}), "other")
    with pytest.raises(errors.Conflict):
        applied(live, thing({"a": "2"}), "kubectl")


def test_what_changed_since_the_annotation_still_conflicts() -> None:
    annotation = json.dumps(thing({"a": "1", "n": 1}))
    live = updated(None, thing({"a": "changed", "n": 1}, annotations={LAST_APPLIED: annotation}), "other")
    with pytest.raises(errors.Conflict) as caught:
        applied(live, thing({"a": "2", "n": 2}), "kubectl")
    assert [cause["field"] for cause in caught.value.causes] == [".spec.a"]


def test_an_annotation_that_grew_too_large_is_dropped() -> None:
    live = updated(None, thing({"a": "1"}, annotations={LAST_APPLIED: "{}"}), "other")
    after = applied(live, thing({"am": {"k": "x" * 300_000}}), "kubectl")
    assert LAST_APPLIED not in after["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "error decoding YAML: the applied configuration must be an object"),
        ({"apiVersion": "v2", "kind": "Thing"}, "invalid object type: v2, Kind=Thing"),
        ({}, "invalid object type: , Kind="),
        (thing(managedFields=[{}]), "metadata.managedFields must be nil"),
        (
            thing({"unknown": 1}, namespace="ns"),
            (
                "failed to create typed patch object (ns/t; example.io/v1, Kind=Thing): "
                ".spec.unknown: field not declared in schema"
            ),
        ),
        (thing({"a": 5}), ".spec.a: expected string, got &value.valueUnstructured{Value:5}"),
        (thing({"n": "5"}), ".spec.n: expected numeric (int or float), got string"),
        (thing({"m": "5"}), ".spec.m: expected map, got &{5}"),
        (thing({"al": {"a": 1}}), ".spec.al: expected list, got &{map[a:1]}"),
        (thing({"al": [True]}), ".spec.al[0]: expected string, got &value.valueUnstructured{Value:true}"),
        (thing({"set": ["a", "a"]}), '.spec.set: duplicate entries for key [="a"]'),
        (thing({"set": [{}]}), ".spec.set: element 0: associative list without keys has an element that's a map type"),
        (
            thing({"items": [{"name": "i"}, {"name": "i", "port": 80}]}),
            '.spec.items: duplicate entries for key [name="i",port=80]',
        ),
        (thing({"items": ["x"]}), ".spec.items: element 0: associative list with keys may not have non-map elements"),
        (thing({"a": 1, "n": "x"}), "errors:\n  .spec.a: expected string"),
    ],
)
def test_configurations_that_do_not_fit(config: Any, message: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        applied(None, config, "me")
    assert message in caught.value.message


def test_free_form_parts_take_anything() -> None:
    value = applied(None, thing({"any": {"x": [1, {"y": None}]}, "free": 7}), "me")
    assert owners(value) == {"me": {"f:spec": {"f:any": {"f:x": {}}, "f:free": {}}}}


def test_depth_is_bounded() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(errors.BadRequest, match="exceeded max depth"):
        apply(THING, None, thing({"any": deep}), "me", force=False, api_version="example.io/v1", kind="Thing", now=NOW)


WORDS = st.sampled_from(["p", "q", "r"])
ITEMS = st.lists(
    st.fixed_dictionaries({"name": WORDS}, optional={"v": WORDS, "sub": st.dictionaries(st.sampled_from("xy"), WORDS)}),
    max_size=3,
    unique_by=lambda item: str(item["name"]),
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "a": WORDS,
        "n": st.integers(0, 2),
        "m": st.dictionaries(WORDS, WORDS, max_size=3),
        "am": st.dictionaries(WORDS, WORDS, max_size=2),
        "al": st.lists(WORDS, max_size=2),
        "set": st.lists(WORDS, unique=True, max_size=3),
        "items": ITEMS,
        "mm": st.dictionaries(WORDS, st.dictionaries(st.sampled_from("xy"), WORDS, max_size=2), max_size=2),
        "any": st.dictionaries(WORDS, WORDS | st.lists(WORDS, max_size=1), max_size=2),
    },
)


@given(SPECS, SPECS)
def test_apply_twice_is_apply_once(first: Json, second: Json) -> None:
    live = applied(None, thing(first), "one")
    live = applied(live, thing(second), "two", force=True)
    assert applied(live, thing(second), "two", now=LATER) is live


@given(SPECS, SPECS)
def test_one_manager_gets_exactly_what_it_applies(first: Json, second: Json) -> None:
    live = applied(applied(None, thing(first), "me"), thing(second), "me")
    assert without_empty(live.get("spec", {})) == without_empty(second)
    expected = fieldset.difference(applied_fields(THING, thing(second)), UNTRACKED)
    assert owners(live).get("me", {}) == fieldset.difference(expected, {"f:metadata": {"f:name": {}}})


@given(SPECS, SPECS)
def test_managers_with_different_fields_never_conflict(first: Json, second: Json) -> None:
    mine = {name: value for name, value in first.items() if name in {"a", "m", "items", "any"}}
    theirs = {name: value for name, value in second.items() if name in {"n", "am", "al", "set", "mm"}}
    live = applied(applied(None, thing(mine), "one"), thing(theirs), "two")
    assert without_empty(live.get("spec", {})) == without_empty({**mine, **theirs})
    alone = applied(live, thing({}), "one")
    assert without_empty(alone.get("spec", {})) == without_empty(theirs)


@given(SPECS.map(without_empty), SPECS.map(without_empty).filter(bool))
def test_withdrawing_removes_only_what_is_not_shared(first: Json, second: Json) -> None:
    live = applied(applied(None, thing(first), "one"), thing(second), "two", force=True)
    after = applied(live, thing(), "one")
    assert owners(after) == {"two": owners(live)["two"]}
    assert after["spec"] == second


def test_many_fields_given_up_are_looked_at_together_in_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the other version the annotation `share` is a field of the spec, which another manager owns there."""

    def other(obj: Json) -> Json:
        annotations = dict(obj["metadata"].get("annotations") or {})
        share = annotations.pop("share", None)
        shown = {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
        return shown if share is None else {**shown, "spec": {"share": share}}

    versions = {"example.io/v1": Version(THING), "example.io/v0": Version(ANYTHING, other)}

    def compared(count: int) -> int:
        comparisons = 0

        def counting(*arguments: Any) -> Any:
            nonlocal comparisons
            comparisons += 1
            return compare_tracked(*arguments)

        annotations = {"share": "1"} | {f"a{number}": "x" for number in range(count)}
        live = applied(None, thing(annotations=annotations), "one", versions=versions)
        fields: dict[str, Any] = {"f:spec": {"f:share": {}}}
        live["metadata"]["managedFields"].append(
            managers.entry(Identity.of("two", "Apply", "", ""), "example.io/v0", fields, None)
        )
        with monkeypatch.context() as patched:
            patched.setattr(server_side_apply, "compare_tracked", counting)
            after = applied(live, thing(), "one", versions=versions)
        assert after["metadata"]["annotations"] == {"share": "1"}
        return comparisons

    assert compared(128) <= compared(64) + 4
