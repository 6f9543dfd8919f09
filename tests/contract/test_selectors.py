"""Label and field selectors in lists."""

from __future__ import annotations

import pytest

from kube_fairlead_lab.testing.manifests import node, pod, secret
from kube_fairlead_lab.testing.rawhttp import RawApi


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    labels = {"a": {"tier": "web", "env": "prod"}, "b": {"tier": "web", "env": "test"}, "c": {"tier": "db"}, "d": {}}
    for name, values in labels.items():
        (await api.post(path, secret(name, labels=values))).expect(201)
    return path


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", "abcd"),
        ("tier=web", "ab"),
        ("tier==web", "ab"),
        ("tier!=web", "cd"),
        ("tier=web,env=prod", "a"),
        ("tier in (web, db)", "abc"),
        ("tier notin (web)", "cd"),
        ("tier", "abc"),
        ("!tier", "d"),
        ("tier,!env", "c"),
        ("env in (prod),tier notin (db)", "a"),
        ("tier=", ""),
        ("tier in ()", ""),
    ],
)
async def test_label_selectors(api: RawApi, path: str, selector: str, names: str) -> None:
    items = (await api.get(path, labelSelector=selector)).expect(200)["items"]
    assert "".join(item["metadata"]["name"] for item in items) == names


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("tier in web", "unable to parse requirement: found 'web' expected: '('"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "a in ($)",
            (
                'unable to parse requirement: values[0][a]: Invalid value: "$": a valid label '
                "must be an empty string or "
                "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
                "character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ),
        ),
    ],
)
async def test_bad_label_selectors(api: RawApi, path: str, selector: str, message: str) -> None:
    status = (await api.get(path, labelSelector=selector)).expect(400)
    assert (status["reason"], status["message"]) == ("BadRequest", message)


@pytest.mark.parametrize(
    ("selector", "names"),
    [("metadata.name=b", "b"), ("metadata.name!=b", "acd"), ("metadata.name=b,metadata.name=c", ""), ("", "abcd")],
)
async def test_field_selectors(api: RawApi, path: str, selector: str, names: str) -> None:
    items = (await api.get(path, fieldSelector=selector)).expect(200)["items"]
    assert "".join(item["metadata"]["name"] for item in items) == names


async def test_field_selector_by_namespace_over_all_namespaces(api: RawApi, path: str, namespace: str) -> None:
    listed = (await api.get("/api/v1/secrets", fieldSelector=f"metadata.namespace={namespace}")).expect(200)
    assert len(listed["items"]) == 4


async def test_an_unknown_field_is_refused(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    status = (await api.get(path, fieldSelector="data.k=v")).expect(400)
    known = 'only "metadata.name", "metadata.namespace"'
    assert status["message"] == f'"data.k" is not a known field selector: {known}'
    malformed = (await api.get(path, fieldSelector="metadata.name")).expect(400)
    assert malformed["message"] == "invalid selector: 'metadata.name'; can't understand 'metadata.name'"


async def test_pods_by_node_and_phase(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(path, pod("on-a", node_name="node-a"))).expect(201)
    (await api.post(path, pod("on-b", node_name="node-b"))).expect(201)
    (await api.post(path, pod("pending"))).expect(201)
    (await api.patch(f"{path}/on-b/status", {"status": {"phase": "Running"}})).expect(200)
    for selector, names in {
        "spec.nodeName=node-a": ["on-a"],
        "spec.nodeName!=node-a": ["on-b", "pending"],
        "spec.nodeName=": ["pending"],
        "status.phase=Running": ["on-b"],
        "status.phase!=Running,spec.nodeName!=": ["on-a"],
        "spec.restartPolicy=Always": ["on-a", "on-b", "pending"],
        "spec.schedulerName=default-scheduler,metadata.name=pending": ["pending"],
        "spec.serviceAccountName=default,spec.nodeName=node-b": ["on-b"],
    }.items():
        items = (await api.get(path, fieldSelector=selector)).expect(200)["items"]
        assert [item["metadata"]["name"] for item in items] == names, selector


async def test_nodes_by_unschedulable(api: RawApi, unique_name: object) -> None:
    assert callable(unique_name)
    name = unique_name("cordoned")
    made = node(name, labels={"only": name})
    (await api.post("/api/v1/nodes", {**made, "spec": {"unschedulable": True}})).expect(201)
    try:
        selected = (
            await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=true", labelSelector=f"only={name}")
        ).expect(200)
        assert [item["metadata"]["name"] for item in selected["items"]] == [name]
        other = (
            await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false", labelSelector=f"only={name}")
        ).expect(200)
        assert other["items"] == []
    finally:
        (await api.delete(f"/api/v1/nodes/{name}")).expect(200)


async def test_events_by_involved_object(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/events"
    for name, involved in {"e1": "pod-a", "e2": "pod-b"}.items():
        event = {
            "metadata": {"name": name},
            "involvedObject": {"kind": "Pod", "namespace": namespace, "name": involved},
            "reason": "Tested",
            "type": "Normal",
        }
        (await api.post(path, event)).expect(201)
    for selector in ("involvedObject.name=pod-b", "involvedObject.kind=Pod,involvedObject.name=pod-b,type=Normal"):
        items = (await api.get(path, fieldSelector=selector)).expect(200)["items"]
        assert [item["metadata"]["name"] for item in items] == ["e2"]
    assert (await api.get(path, fieldSelector="reason=Other")).expect(200)["items"] == []
