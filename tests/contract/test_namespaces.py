"""Namespaces: born active, gone only when everything in them is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kube_fairlead_lab.testing.manifests import config_map, failure
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Refused


@pytest.fixture
def name(unique_name: Callable[[str], str]) -> str:
    return unique_name("space")


async def test_a_new_namespace(api: RawApi, name: str) -> None:
    made = (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    ending = (await api.delete(f"/api/v1/namespaces/{name}")).expect(200)
    assert "deletionTimestamp" in ending["metadata"]
    assert "deletionGracePeriodSeconds" not in ending["metadata"]


async def test_the_standard_ones_are_there(api: RawApi) -> None:
    items = (await api.get("/api/v1/namespaces")).expect(200)["items"]
    names = {item["metadata"]["name"] for item in items}
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= names


async def test_a_default_service_account_appears(api: RawApi, namespace: str) -> None:
    account = (await api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")).expect(200)
    assert account["metadata"]["namespace"] == namespace


async def test_deletion_empties_it_first(api: RawApi, name: str) -> None:
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    path = f"/api/v1/namespaces/{name}/configmaps"
    held = (await api.post(path, config_map("held", finalizers=["example.com/hold"]))).expect(201)
    (await api.post(path, config_map("free"))).expect(201)
    here = {"fieldSelector": f"metadata.name={name}"}
    version = held["metadata"]["resourceVersion"]
    async with api.watch("/api/v1/namespaces", resourceVersion=version, **here) as spaces:
        async with api.watch(path, resourceVersion=version) as maps:
            marked = (await api.delete(f"/api/v1/namespaces/{name}")).expect(200)
            assert marked["status"]["phase"] == "Terminating"
            assert marked["metadata"]["deletionTimestamp"]
            await maps.until(lambda event: event["type"] == "DELETED" and event["object"]["metadata"]["name"] == "free")
            await maps.until(lambda event: "deletionTimestamp" in event["object"]["metadata"])
            status = (await api.post(path, config_map("late"))).expect(403)
            assert status["message"] == (
                f'configmaps "late" is forbidden: unable to create new content in namespace {name} because it is being '
                "terminated"
            )
            assert status["details"] == {
                "name": "late",
                "kind": "configmaps",
                "causes": [
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {name} is being terminated",
                        "field": "metadata.namespace",
                    }
                ],
            }
            (await api.patch(f"{path}/held", {"metadata": {"finalizers": None}})).expect(200)
        await spaces.until(lambda event: event["type"] == "DELETED")
    (await api.get(f"/api/v1/namespaces/{name}")).expect(404)


async def test_conditions_say_what_is_left(api: RawApi, name: str) -> None:
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    path = f"/api/v1/namespaces/{name}/configmaps"
    held = (await api.post(path, config_map("held", finalizers=["example.com/hold"]))).expect(201)
    here = {"fieldSelector": f"metadata.name={name}", "resourceVersion": held["metadata"]["resourceVersion"]}
    async with api.watch("/api/v1/namespaces", **here) as watch:
        (await api.delete(f"/api/v1/namespaces/{name}")).expect(200)
        event = await watch.until(lambda event: "conditions" in event["object"]["status"])
        conditions = {condition["type"]: condition for condition in event["object"]["status"]["conditions"]}
        remaining = conditions["NamespaceFinalizersRemaining"]
        assert (remaining["status"], remaining["reason"]) == ("True", "SomeFinalizersRemain")
        assert remaining["message"] == (
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )
        content = conditions["NamespaceContentRemaining"]
        assert (content["status"], content["reason"]) == ("True", "SomeResourcesRemain")
        assert content["message"] == "Some resources are remaining: configmaps. has 1 resource instances"
        (await api.patch(f"{path}/held", {"metadata": {"finalizers": None}})).expect(200)
        await watch.until(lambda event: event["type"] == "DELETED")


async def test_finalize_is_the_only_way_to_change_spec_finalizers(api: RawApi, name: str) -> None:
    path = f"/api/v1/namespaces/{name}"
    made = (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    kept = (await api.patch(path, {"spec": {"finalizers": []}})).expect(200)
    assert kept["spec"] == {"finalizers": ["kubernetes"]}
    emptied = (await api.put(f"{path}/finalize", {**made, "spec": {}})).expect(200)
    assert emptied["spec"] == {}
    (await api.delete(path)).expect(200)


async def test_whoever_holds_a_namespace_says_who_it_is(api: RawApi, name: str, refused: Refused) -> None:
    path, neither = "/api/v1/namespaces", "name is neither a standard finalizer name nor is it fully qualified"
    held = {"metadata": {"name": name}, "spec": {"finalizers": ["foo", "orphan", "a/b/c"]}}
    first, second = await refused(path, held)
    assert first.startswith('spec.finalizers: Invalid value: "a/b/c": a valid label key must consist of')
    assert second == f'spec.finalizers: Invalid value: "foo": {neither}'
    held["spec"] = {"finalizers": ["a.b/c"]}
    made = (await api.post(path, held)).expect(201)
    assert made["spec"]["finalizers"] == ["a.b/c", "kubernetes"]
    status = (await api.put(f"{path}/{name}/finalize", {**made, "spec": {"finalizers": ["a.b/c", "foo"]}})).expect(422)
    assert status["message"] == f'Namespace "{name}" is invalid: spec.finalizers[1]: Invalid value: "foo": {neither}'
    (await api.put(f"{path}/{name}/finalize", {**made, "spec": {"finalizers": ["kubernetes"]}})).expect(200)
    (await api.delete(f"{path}/{name}")).expect(200)


async def test_the_standard_ones_stay(api: RawApi) -> None:
    for name in ("default", "kube-system", "kube-public"):
        assert (await api.delete(f"/api/v1/namespaces/{name}")).expect(403) == failure(
            403,
            "Forbidden",
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            {"name": name, "kind": "namespaces"},
        )


async def test_names_are_labels(api: RawApi) -> None:
    status = (await api.post("/api/v1/namespaces", {"metadata": {"name": "with.dot"}})).expect(422)
    assert status["message"].endswith('metadata.name: Invalid value: "with.dot": must not contain dots')
    status = (await api.post("/api/v1/namespaces", {"metadata": {"name": "Upper"}})).expect(422)
    assert 'metadata.name: Invalid value: "Upper": a lowercase RFC 1123 label must consist of' in status["message"]
