from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.admission.match_criteria import Criteria, UnusableCriteria, is_configuration
from kube_fairlead_apiserver.admission.object_reader import ObjectReader
from kube_fairlead_apiserver.attributes import UserInfo
from tests.unit.admission.plane import Plane, config_map

Json = dict[str, Any]


def operation(
    plane: Plane,
    kind: str = "Pod",
    *,
    verb: str = "CREATE",
    subresource: str = "",
    name: str = "a",
    obj: Json | None = None,
    old: Json | None = None,
) -> Operation:
    resource = plane.resource(kind)
    namespace = "work" if resource.namespaced else ""
    shown = obj or {"metadata": {"name": name, "labels": {"app": "web"}}}
    return Operation(verb, resource, UserInfo("jane"), namespace, name, shown, old, subresource)


def rule(**fields: Any) -> Json:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": "*"}
    return {**everything, **fields}


def criteria(*rules: Json, **fields: Any) -> Criteria:
    defaults: Json = {"match_policy": "Exact", "namespace_selector": {}, "object_selector": {}}
    return Criteria(list(rules), **{**defaults, **fields})


@pytest.mark.parametrize(
    ("fields", "asked", "matched"),
    [
        ({}, {}, True),
        ({"operations": ["UPDATE", "CREATE"]}, {}, True),
        ({"operations": ["UPDATE"]}, {}, False),
        ({"apiGroups": [""]}, {}, True),
        ({"apiGroups": ["apps"]}, {}, False),
        ({"apiVersions": ["v1"]}, {}, True),
        ({"apiVersions": ["v2"]}, {}, False),
        ({"resources": ["pods"]}, {}, True),
        ({"resources": ["pods"]}, {"subresource": "status"}, False),
        ({"resources": ["pods/status"]}, {"subresource": "status"}, True),
        ({"resources": ["pods/status"]}, {}, False),
        ({"resources": ["pods/*"]}, {"subresource": "status"}, True),
        ({"resources": ["pods/*"]}, {}, True),
        ({"resources": ["*/status"]}, {"subresource": "status"}, True),
        ({"resources": ["*"]}, {"subresource": "status"}, False),
        ({"resources": ["*/*"]}, {"subresource": "status"}, True),
        ({"resources": ["*/*"]}, {}, True),
        ({"scope": "Namespaced"}, {}, True),
        ({"scope": "Cluster"}, {}, False),
        ({"scope": "Namespaced"}, {"kind": "Node"}, False),
        ({"scope": "Cluster"}, {"kind": "Node"}, True),
        ({"scope": "Cluster"}, {"kind": "Namespace", "name": "work"}, True),
        ({"scope": "Namespaced"}, {"kind": "Namespace", "name": "work"}, False),
        ({"resourceNames": ["a", "b"]}, {}, True),
        ({"resourceNames": ["b"]}, {}, False),
    ],
)
async def test_rules(plane: Plane, fields: Json, asked: Json, matched: bool) -> None:
    objects = ObjectReader(plane.store, plane.catalog)
    about = operation(plane, **asked)
    assert (criteria(rule(**fields)).match(about, objects) is about.resource) is matched


async def test_no_rules_mean_never_or_always(plane: Plane) -> None:
    objects = ObjectReader(plane.store, plane.catalog)
    assert criteria().match(operation(plane), objects) is None
    assert criteria(without_rules=True).match(operation(plane), objects) is not None
    assert criteria(without_rules=True, excluded=[rule(resources=["pods"])]).match(operation(plane), objects) is None


@pytest.mark.parametrize(
    ("labels", "old_labels", "matched"),
    [
        ({"app": "web"}, None, True),
        ({"app": "db"}, None, False),
        ({"app": "db"}, {"app": "web"}, True),
        ({}, {}, False),
    ],
)
async def test_an_object_is_selected_as_it_is_or_was(
    plane: Plane, labels: Json, old_labels: Json | None, matched: bool
) -> None:
    objects = ObjectReader(plane.store, plane.catalog)
    selecting = criteria(rule(), object_selector={"matchLabels": {"app": "web"}})
    old = None if old_labels is None else {"metadata": {"labels": old_labels}}
    about = operation(plane, obj={"metadata": {"labels": labels}}, old=old)
    assert (selecting.match(about, objects) is not None) is matched


async def test_a_namespace_is_selected_by_its_labels(plane: Plane) -> None:
    objects = ObjectReader(plane.store, plane.catalog)
    selecting = criteria(rule(), namespace_selector={"matchLabels": {"level": "strict"}})
    assert selecting.match(operation(plane), objects) is None
    await plane.change("Namespace", "work", lambda obj: obj["metadata"]["labels"].update(level="strict"))
    assert selecting.match(operation(plane), objects) is not None
    # What has no namespace is not exempted by one.
    assert selecting.match(operation(plane, "Node"), objects) is not None
    # A namespace is judged by the labels it is going to have.
    young = {"metadata": {"name": "young", "labels": {"level": "strict"}}}
    assert selecting.match(operation(plane, "Namespace", name="young", obj=young), objects) is not None
    lost = Operation("CREATE", plane.resource("Pod"), UserInfo("jane"), "nowhere", "a", {"metadata": {}}, None)
    with pytest.raises(errors.NotFound):
        selecting.match(lost, objects)
    # An error is nobody's business whose rules do not match.
    narrow = criteria(rule(resources=["nodes"]), namespace_selector={"matchLabels": {"level": "strict"}})
    assert narrow.match(lost, objects) is None


async def test_another_version_of_the_same_thing_is_the_same_thing(plane: Plane) -> None:
    objects = ObjectReader(plane.store, plane.catalog)
    events = rule(apiGroups=["events.k8s.io"], apiVersions=["v1"], resources=["events"])
    core_events = plane.catalog.get("", "v1", "events")
    assert core_events is not None
    about = Operation("CREATE", core_events, UserInfo("jane"), "work", "a", {"metadata": {}}, None)
    assert criteria(events).match(about, objects) is None
    matched = criteria(events, match_policy="Equivalent").match(about, objects)
    assert matched is plane.catalog.get("events.k8s.io", "v1", "events")


async def test_a_selector_that_makes_no_sense_is_an_error_only_where_the_rules_match(plane: Plane) -> None:
    objects = ObjectReader(plane.store, plane.catalog)
    nonsense = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    for field in ("object_selector", "namespace_selector"):
        broken = criteria(rule(resources=["pods"]), **{field: nonsense})
        assert broken.match(operation(plane, "ConfigMap"), objects) is None
        with pytest.raises(UnusableCriteria, match="is not a valid label selector operator"):
            broken.match(operation(plane), objects)


def test_admissions_own_configuration_is_known() -> None:
    group = "admissionregistration.k8s.io"
    assert is_configuration(group, "validatingadmissionpolicies")
    assert is_configuration(group, "mutatingwebhookconfigurations")
    assert not is_configuration("", "configmaps")


async def test_what_is_derived_follows_what_is_stored(plane: Plane) -> None:
    objects = ObjectReader(plane.store, plane.catalog)
    resource = plane.resource("ConfigMap")
    made = []

    def build() -> list[str]:
        made.append(1)
        return [obj["metadata"]["name"] for obj in objects.list(resource)]

    derived = objects.derive([("", "v1", "configmaps")], build)
    assert derived.get() == derived.get() == []
    assert len(made) == 1
    await plane.create(config_map("a"))
    assert derived.get() == ["a"]
    await plane.delete("ConfigMap", "a", namespace="work")
    assert derived.get() == []
    assert len(made) == 3
