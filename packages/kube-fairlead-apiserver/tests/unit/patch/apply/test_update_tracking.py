from __future__ import annotations

import copy
import datetime as dt
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.patch.apply import fieldset
from kube_fairlead_apiserver.patch.apply.manager_versions import Version
from kube_fairlead_apiserver.patch.apply.managers import with_managed_fields
from kube_fairlead_apiserver.patch.apply.update_tracking import compare_tracked, track_update
from kube_fairlead_apiserver.schema.model import ANYTHING, compile_schema

Json = dict[str, Any]

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
STRING = {"type": "string"}
CONFIG_MAP = compile_schema(
    {"type": "object", "properties": {"data": {"type": "object", "additionalProperties": STRING}}}
)
# As a Go struct is published: what is no pointer has the default {}, and required lists are always there.
POD = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "default": {},
                "required": ["containers"],
                "properties": {
                    "nodeName": STRING,
                    "containers": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": STRING,
                                "image": STRING,
                                "resources": {"type": "object", "default": {}, "properties": {"limits": STRING}},
                            },
                        },
                    },
                },
            },
            "status": {"type": "object", "default": {}, "properties": {"phase": STRING}},
        },
    }
)


def config_map(data: dict[str, str], **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "uid": "u", "resourceVersion": "1", **metadata},
        "data": data,
    }


def updated(live: Json | None, new: Json, manager: str, now: dt.datetime = NOW, **options: Any) -> Json:
    entries = track_update(options.pop("node", CONFIG_MAP), live, new, manager, "v1", now, **options)
    return with_managed_fields(new, entries)


def owners(value: Json) -> dict[str, Any]:
    return {found["manager"]: found["fieldsV1"] for found in value["metadata"].get("managedFields", ())}


def test_create_owns_everything_but_identity() -> None:
    new = config_map({"a": "1"}, labels={"x": "y"}, creationTimestamp="2026-01-01T00:00:00Z", generation=1)
    created = updated(None, new, "kubectl")
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "kubectl",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
                "f:data": {".": {}, "f:a": {}},
            },
        }
    ]


def test_structs_that_are_always_there_are_not_owned_themselves() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    assert owners(updated(None, pod, "m", node=POD))["m"] == {
        "f:spec": {
            "f:nodeName": {},
            "f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}}},
        }
    }


def test_a_change_takes_the_field_over_and_a_removal_gives_it_up() -> None:
    live = updated(None, config_map({"a": "1", "b": "1"}), "one")
    new = updated(live, config_map({"b": "2", "c": "3"}), "two", LATER)
    assert owners(new) == {"one": {"f:data": {}}, "two": {"f:data": {"f:b": {}, "f:c": {}}}}
    times = {found["manager"]: found["time"] for found in new["metadata"]["managedFields"]}
    assert times == {"one": "2026-01-01T00:00:00Z", "two": "2026-01-02T00:00:00Z"}


def test_a_removal_alone_leaves_the_remover_unmentioned() -> None:
    live = updated(None, config_map({"a": "1", "b": "1"}), "one")
    new = updated(live, config_map({"b": "1"}), "two", LATER)
    assert owners(new) == {"one": {"f:data": {".": {}, "f:b": {}}}}


def test_nothing_changed_is_the_same_list() -> None:
    live = updated(None, config_map({"a": "1"}), "one")
    entries = live["metadata"]["managedFields"]
    new = copy.deepcopy(live)
    new["metadata"]["resourceVersion"] = "2"
    assert track_update(CONFIG_MAP, live, new, "two", "v1", LATER) is entries
    del new["metadata"]["managedFields"]
    assert track_update(CONFIG_MAP, live, new, "two", "v1", LATER) is entries


def test_untouched_entries_are_shared() -> None:
    live = updated(updated(None, config_map({"a": "1"}), "one"), config_map({"a": "1", "b": "2"}), "two")
    new = updated(live, config_map({"a": "1", "b": "3"}), "three")
    assert new["metadata"]["managedFields"][0] is live["metadata"]["managedFields"][0]


def test_the_same_manager_gathers() -> None:
    live = updated(None, config_map({"a": "1"}), "one")
    new = updated(live, config_map({"a": "1", "b": "2"}), "one", LATER)
    assert owners(new) == {"one": {"f:data": {".": {}, "f:a": {}, "f:b": {}}}}
    assert new["metadata"]["managedFields"][0]["time"] == "2026-01-02T00:00:00Z"


def test_an_empty_list_resets_and_then_nothing_is_tracked() -> None:
    live = updated(None, config_map({"a": "1"}), "one")
    resets: list[list[Json]] = [[], [{}]]
    for sent in resets:
        assert track_update(CONFIG_MAP, live, config_map({"a": "2"}, managedFields=sent), "two", "v1", NOW) == []
    untracked = config_map({"a": "1"})
    assert track_update(CONFIG_MAP, untracked, config_map({"a": "2"}), "two", "v1", NOW) == []


def test_a_client_may_set_entries_but_not_broken_ones_nor_through_a_subresource() -> None:
    live = updated(None, config_map({"a": "1"}), "one")
    entries = live["metadata"]["managedFields"]
    renamed = [entries[0] | {"manager": "uno"}]
    assert set(owners(updated(live, config_map({"a": "1"}, managedFields=renamed), "two"))) == {"uno"}
    broken = [entries[0] | {"operation": "Magic"}]
    assert set(owners(updated(live, config_map({"a": "1"}, managedFields=broken), "two"))) == {"one"}
    through_status = config_map({"a": "1"}, managedFields=renamed)
    assert set(owners(updated(live, through_status, "two", subresource="status"))) == {"one"}


def test_reset_fields_are_nobodys() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    created = updated(None, pod, "kubectl", node=POD, reset_fields={"f:status": {}})
    assert owners(created) == {"kubectl": {"f:spec": {"f:nodeName": {}}}}
    status = {**created, "spec": {"nodeName": "other"}}
    reported = updated(created, status, "kubelet", node=POD, subresource="status", reset_fields={"f:spec": {}})
    assert owners(reported) == {"kubectl": {"f:spec": {"f:nodeName": {}}}}


def test_entries_of_a_version_that_is_gone_are_dropped() -> None:
    live = updated(None, config_map({"a": "1"}), "one")
    old = with_managed_fields(live, [live["metadata"]["managedFields"][0] | {"apiVersion": "v1beta1"}])
    new = config_map({"a": "1", "b": "2"})
    assert set(owners(updated(old, new, "two"))) == {"one", "two"}
    assert set(owners(updated(old, new, "two", versions={"v1": Version(CONFIG_MAP)}))) == {"two"}
    both = {"v1": Version(CONFIG_MAP), "v1beta1": Version(ANYTHING)}
    assert set(owners(updated(old, new, "two", versions=both))) == {"one", "two"}


OBJECTS = st.fixed_dictionaries(
    {"metadata": st.just({"name": "c", "uid": "u", "labels": {"always": "there"}})},
    optional={
        "data": st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3),
        "free": st.recursive(
            st.integers(0, 2) | st.text("ab", max_size=1),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            max_leaves=5,
        ),
    },
)


@given(st.lists(st.tuples(OBJECTS, st.sampled_from(["one", "two", "three"])), min_size=1, max_size=6))
def test_every_field_has_exactly_one_updater(writes: list[tuple[Json, str]]) -> None:
    """What updaters own is disjoint, and together it is the fields of the object."""
    live: Json | None = None
    for new, manager in writes:
        before = copy.deepcopy((live, new))
        live_after = updated(live, new, manager)
        assert (live, new) == before
        live = live_after
    assert live is not None
    everything = owners(updated(None, {**live, "metadata": {"labels": {"always": "there"}}}, "all"))["all"]
    owned: dict[str, Any] = {}
    for fields in owners(live).values():
        assert not fieldset.intersection(owned, fields)
        owned = fieldset.union(owned, fields)
    assert owned == everything


# Everything that a schema can say of a field in which a new object and nothing may differ: structs that are always
# there, required ones, atomic ones, lists by keys, sets and plain ones.
PARTS = compile_schema(
    {
        "type": "object",
        "required": ["struct", "list", "text"],
        "properties": {
            "text": STRING,
            "struct": {
                "type": "object",
                "default": {},
                "required": ["list", "text", "number", "pointer"],
                "properties": {
                    "text": STRING | {"default": ""},
                    "number": {"type": "integer", "default": 0},
                    "pointer": {"type": "object", "x-kubernetes-map-type": "atomic"},
                    "struct": {"type": "object", "default": {}, "properties": {"text": STRING}},
                    "whole": {"type": "object", "default": {}, "x-kubernetes-map-type": "atomic"},
                    "list": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "properties": {"name": STRING}},
                    },
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
                },
            },
            "list": {"type": "array", "items": STRING},
            "status": {"type": "object", "properties": {"phase": STRING}},
        },
    }
)
TEXT = st.sampled_from(["", "x", "y"])
MAP = st.dictionaries(st.sampled_from("abc"), TEXT, max_size=2)
STRUCT = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXT,
        "number": st.integers(0, 2),
        "pointer": MAP | st.none(),
        "struct": st.fixed_dictionaries({}, optional={"text": TEXT}),
        "whole": MAP,
        "list": st.lists(st.fixed_dictionaries({"name": TEXT}, optional={"other": MAP}), max_size=3),
        "set": st.lists(TEXT, max_size=3),
        "other": MAP,
    },
)
CONTENT = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXT,
        "struct": STRUCT,
        "list": st.lists(TEXT, max_size=2),
        "status": st.fixed_dictionaries({}, optional={"phase": TEXT}),
        "other": MAP,
    },
)


@given(CONTENT, st.sampled_from([None, {"f:status": {}}]))
def test_what_is_owned_of_the_new_is_what_a_comparison_with_nothing_finds(content: Json, reset: Json | None) -> None:
    new = {"metadata": {"name": "c", "labels": {"a": "b"}}, **content}
    _, modified, added = compare_tracked(PARTS, {}, new, reset)
    assert owners(updated(None, new, "one", node=PARTS, reset_fields=reset)) == {"one": fieldset.union(modified, added)}


def test_a_new_object_owns_its_required_fields() -> None:
    struct = {"text": "x", "number": 0, "pointer": {"a": "b"}, "whole": {"a": "b"}, "list": [{"name": "n"}]}
    assert owners(updated(None, {"metadata": {}, "struct": struct}, "m", node=PARTS))["m"] == {
        "f:struct": {
            "f:text": {},  # but not the number, which is what it would be anyway
            "f:pointer": {},
            "f:whole": {},
            "f:list": {'k:{"name":"n"}': {".": {}, "f:name": {}}},
        }
    }
