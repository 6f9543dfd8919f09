from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube_fairlead.api import core_v1, errors, layout, meta, wire

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "default",
        "uid": "u1",
        "creationTimestamp": None,
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u2"}],
        "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "containers": [
            {"name": "a", "image": "x", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
            {"name": "b", "image": "y", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "nfs": {"server": "s"}}],
        "tolerations": [{"key": "k", "operator": "Exists"}, {"operator": "Exists", "effect": "NoExecute"}],
        "nodeName": "",
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}],
        "podIPs": [{"ip": "10.0.0.1"}],
    },
}

text = st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, width=32) | text
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=4,
)
# Names that no kind of ours will ever know.
extra_names = st.from_regex(r"x[A-Za-z]{0,5}-", fullmatch=True)
extras = st.dictionaries(extra_names, json_values, max_size=2)


@st.composite
def with_extras(draw: st.DrawFn, tree: Any) -> Any:
    """The tree with arbitrary extra fields in every object that is not a plain map."""
    if isinstance(tree, dict):
        out = {key: draw(with_extras(value)) for key, value in tree.items()}
        # Maps of strings are data, not structs.
        if not tree or any(not isinstance(value, str) for value in tree.values()) or "name" in tree or "type" in tree:
            out |= draw(extras)
        return dict(draw(st.permutations(list(out.items()))))
    if isinstance(tree, list):
        return [draw(with_extras(item)) for item in tree]
    return tree


slow_data = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None, max_examples=25
)


def encoded(tree: Any) -> bytes:
    return msgspec.json.encode(tree)


def set_at(tree: Any, path: list[str | int], value: Any) -> Any:
    changed = copy.deepcopy(tree)
    spot = changed
    for step in path[:-1]:
        spot = spot[step]
    spot[path[-1]] = value
    return changed


@slow_data
@given(with_extras(POD))
def test_an_untouched_object_is_its_bytes_again(tree: dict[str, Any]) -> None:
    data = encoded(tree)
    assert wire.encode(wire.decode(core_v1.Pod, data)) == data
    assert wire.to_dict(wire.from_dict(core_v1.Pod, tree)) == msgspec.json.decode(data)


@slow_data
@given(with_extras(POD), st.data())
def test_a_change_at_any_depth_leaves_the_rest_alone(tree: dict[str, Any], data: st.DataObject) -> None:
    pod = wire.decode(core_v1.Pod, encoded(tree))
    tree = msgspec.json.decode(encoded(tree))
    which = data.draw(st.integers(0, 1))
    containers = list(pod.spec.containers)
    containers[which] = wire.replace(containers[which], image="new")
    sleepy = pod.spec.containers[1]
    assert sleepy.lifecycle is not None
    hook = core_v1.LifecycleHandler(sleep=core_v1.SleepAction(seconds=9))
    sleepy = wire.replace(sleepy, lifecycle=wire.replace(sleepy.lifecycle, pre_stop=hook))
    conditions = list(pod.status.conditions)
    conditions[which] = wire.replace(conditions[which], status="False")
    changes: list[tuple[core_v1.Pod, Any]] = [
        (wire.replace_metadata(pod, name="other"), set_at(tree, ["metadata", "name"], "other")),
        (
            wire.replace(pod, spec=wire.replace(pod.spec, node_name="n1")),
            set_at(tree, ["spec", "nodeName"], "n1"),
        ),
        (
            wire.replace(pod, spec=wire.replace(pod.spec, containers=tuple(containers))),
            set_at(tree, ["spec", "containers", which, "image"], "new"),
        ),
        (
            wire.replace(pod, spec=wire.replace(pod.spec, priority=7)),
            set_at(tree, ["spec", "priority"], 7),
        ),
        (
            wire.replace(pod, status=wire.replace(pod.status, conditions=tuple(conditions))),
            set_at(tree, ["status", "conditions", which, "status"], "False"),
        ),
        (
            wire.replace(pod, spec=wire.replace(pod.spec, containers=(pod.spec.containers[0], sleepy))),
            set_at(tree, ["spec", "containers", 1, "lifecycle", "preStop", "sleep", "seconds"], 9),
        ),
    ]
    changed, expected = data.draw(st.sampled_from(changes))
    assert wire.to_dict(changed) == expected
    assert wire.decode(core_v1.Pod, wire.encode(changed)) == changed


@slow_data
@given(with_extras(POD), st.permutations([0, 1]), st.sets(st.integers(0, 1)))
def test_items_with_a_key_keep_their_own_fields_when_the_list_changes(
    tree: dict[str, Any], order: list[int], removed: set[int]
) -> None:
    pod = wire.decode(core_v1.Pod, encoded(tree))
    kept = [i for i in order if i not in removed]
    new = core_v1.Container(name="new", image="z")
    containers = (new, *(wire.replace(pod.spec.containers[i], image="changed") for i in kept))
    actual = wire.to_dict(wire.replace(pod, spec=wire.replace(pod.spec, containers=containers)))
    before = msgspec.json.decode(encoded(tree))["spec"]["containers"]
    assert actual["spec"]["containers"] == [
        {"name": "new", "image": "z"},
        *(before[i] | {"image": "changed"} for i in kept),
    ]


@slow_data
@given(st.lists(with_extras(POD), max_size=3), st.data())
def test_items_of_a_list_and_a_watch_are_whole_too(trees: list[dict[str, Any]], data: st.DataObject) -> None:
    page = wire.decode_list(core_v1.Pod, encoded({"metadata": {"resourceVersion": "7"}, "items": trees}))
    assert page.metadata.resource_version == "7"
    assert [wire.to_dict(item) for item in page.items] == msgspec.json.decode(encoded(trees))
    for tree in trees:
        event = wire.decode_event(core_v1.Pod, encoded({"type": "ADDED", "object": tree}))
        assert event.type == meta.WatchEventType.ADDED
        assert wire.encode(event.object) == encoded(tree)


def test_items_without_kind_get_it_when_written_alone() -> None:
    page = wire.decode_list(core_v1.Pod, b'{"items":[{"metadata":{"name":"a"},"zz":1}]}')
    assert wire.encode(page.items[0]) == b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"zz":1}'


def test_new_objects_write_what_is_set_and_their_kind() -> None:
    pod = core_v1.Pod(metadata=meta.ObjectMeta(name="a"), spec=core_v1.PodSpec(node_name="n"))
    assert wire.encode(pod) == (b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"n"}}')
    assert wire.original(pod) is None


def test_fields_that_go_writes_always_are_written_always() -> None:
    status = core_v1.ContainerStatus(name="c")
    assert wire.to_dict(status) == {"name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": ""}


def test_going_back_to_the_default_removes_the_field() -> None:
    node = wire.decode(core_v1.Node, b'{"kind":"Node","apiVersion":"v1","spec":{"unschedulable":true,"zz":1}}')
    node = wire.replace(node, spec=wire.replace(node.spec, unschedulable=False))
    assert wire.encode(node) == b'{"kind":"Node","apiVersion":"v1","spec":{"zz":1}}'
    pod = wire.from_dict(core_v1.Pod, POD)
    pod = wire.replace(pod, metadata=wire.replace(pod.metadata, owner_references=()))
    assert "ownerReferences" not in wire.to_dict(pod)["metadata"]


def test_a_struct_that_is_reset_keeps_the_fields_nobody_named() -> None:
    node = wire.decode(core_v1.Node, b'{"kind":"Node","apiVersion":"v1","status":{"phase":"x","zz":1}}')
    node = wire.replace(node, status=core_v1.NodeStatus())
    assert wire.to_dict(node)["status"] == {"zz": 1}


def test_an_optional_struct_that_is_removed_is_gone() -> None:
    pod = wire.from_dict(core_v1.Pod, POD)
    bare = wire.replace(pod.spec.containers[1], lifecycle=None)
    pod = wire.replace(pod, spec=wire.replace(pod.spec, containers=(pod.spec.containers[0], bare)))
    assert "lifecycle" not in wire.to_dict(pod)["spec"]["containers"][1]


def test_maps_changed_in_place_are_not_lost() -> None:
    pod = wire.from_dict(core_v1.Pod, {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"a": "b"}}})
    pod.metadata.labels["c"] = "d"
    assert wire.to_dict(pod)["metadata"]["labels"] == {"a": "b", "c": "d"}


@pytest.mark.parametrize("field", ["spec", "status", "metadata"])
def test_null_reads_as_absent_and_stays_null(field: str) -> None:
    data = encoded({"kind": "Pod", "apiVersion": "v1", field: None})
    pod = wire.decode(core_v1.Pod, data)
    assert pod == core_v1.Pod()
    assert wire.encode(pod) == data


def test_null_lists_and_items_read_as_empty() -> None:
    data = b'{"kind":"Pod","apiVersion":"v1","spec":{"containers":null,"nodeName":null,"zz":null}}'
    pod = wire.decode(core_v1.Pod, data)
    assert pod.spec.containers == ()
    container = core_v1.Container(name="a")
    changed = wire.replace(pod, spec=wire.replace(pod.spec, containers=(container,)))
    assert wire.to_dict(changed)["spec"] == {"containers": [{"name": "a"}], "nodeName": None, "zz": None}
    assert wire.decode_list(core_v1.Pod, b'{"items":null}').items == ()


def test_items_without_a_key_do_not_inherit_from_strangers() -> None:
    data = encoded(
        {"kind": "Pod", "apiVersion": "v1", "spec": {"tolerations": [{"key": "a", "zz": 1}, {"key": "b", "zz": 2}]}}
    )
    pod = wire.decode(core_v1.Pod, data)
    first, second = pod.spec.tolerations

    def tolerations(*new: core_v1.Toleration) -> Any:
        changed = wire.replace(pod, spec=wire.replace(pod.spec, tolerations=new))
        return wire.to_dict(changed)["spec"]["tolerations"]

    assert tolerations(second) == [{"key": "b", "zz": 2}]
    assert tolerations(second, first) == [{"key": "b", "zz": 2}, {"key": "a", "zz": 1}]
    assert tolerations(first, wire.replace(second, value="v")) == [
        {"key": "a", "zz": 1},
        {"key": "b", "zz": 2, "value": "v"},
    ]
    assert tolerations(wire.replace(first, key="c")) == [{"key": "c"}]


def test_times_are_written_as_kubernetes_reads_them() -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=dt.UTC)
    event = core_v1.Event(first_timestamp=moment, event_time=moment.replace(microsecond=0))
    tree = wire.to_dict(event)
    assert tree["firstTimestamp"] == "2026-01-02T03:04:05Z"
    assert tree["eventTime"] == "2026-01-02T03:04:05.000000Z"


def test_arbitrary_json_is_compared_exactly() -> None:
    entry = {"manager": "m", "fieldsV1": {"a": 1}}
    part = wire.from_dict(meta.ManagedFieldsEntry, entry)
    assert part.fields_v1 == {"a": 1}
    codec = layout.codec_for(meta.ManagedFieldsEntry)
    assert not codec.same(part, wire.replace(part, fields_v1={"a": True}))


def test_let_go() -> None:
    pod = wire.decode(core_v1.Pod, b'{"kind":"Pod","apiVersion":"v1","zz":1}', keep=False)
    assert wire.original(pod) is None
    assert "zz" not in wire.to_dict(pod)
    page = wire.decode_list(core_v1.Pod, b'{"items":[{"zz":1}]}', keep=False)
    assert wire.original(page.items[0]) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not JSON: Input data was truncated"),
        (b'{"kind":"Node"}', "expected a Pod, got a Node"),
        (b'{"kind":""}', "expected a Pod, got no kind at all"),
        (b'{"metadata":{"name":5}}', "not a Pod: Expected `str`, got `int` - at `$.metadata.name`"),
        (b"[]", "not a Pod: Expected `object`, got `array`"),
        (b'{"zz":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not a Pod: nested too deeply"),
        (b'{"kind":"\xff"}', "not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, message: str) -> None:
    with pytest.raises(wire.DecodeError) as caught:
        wire.decode(core_v1.Pod, data)
    assert str(caught.value) == message


def test_an_error_event_is_the_error() -> None:
    status = errors.Expired("too old resource version: 1 (2)").to_status()
    with pytest.raises(errors.Expired, match="too old"):
        wire.decode_event(core_v1.Pod, encoded({"type": "ERROR", "object": status}))
    with pytest.raises(errors.Expired, match="too old"):
        wire.decode_event(core_v1.ConfigMap, encoded({"type": "ERROR", "object": status}))
    with pytest.raises(wire.DecodeError):
        wire.decode_event(core_v1.Pod, b'{"type":"ADDED","object":{"spec":5}}')
    with pytest.raises(wire.DecodeError):
        wire.decode_event(core_v1.Pod, b'{"type"')
