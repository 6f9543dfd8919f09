"""Delete options and deletion of whole collections."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import secret, success
from kube_fairlead_lab.testing.rawhttp import RawApi

INVALID = 'DeleteOptions.meta.k8s.io "" is invalid: '


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for name in ("a", "b", "c"):
        (await api.post(path, secret(name, labels={"name": name, "all": "yes"}))).expect(201)
    return path


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            {"propagationPolicy": "Sometimes"},
            422,
            INVALID + 'propagationPolicy: Unsupported value: "Sometimes": supported values: "Foreground", '
            '"Background", "Orphan", "nil"',
        ),
        (
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            422,
            INVALID + 'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be '
            "both set",
        ),
        (
            {"dryRun": ["Some"]},
            422,
            INVALID + 'dryRun: Unsupported value: ["Some"]: supported values: "All"',
        ),
    ],
)
async def test_options_that_are_refused(
    api: RawApi, path: str, options: dict[str, Any], code: int, message: str
) -> None:
    status = (await api.delete(f"{path}/a", options)).expect(code)
    assert status["message"] == message
    (await api.get(f"{path}/a")).expect(200)


async def test_options_as_query(api: RawApi, path: str) -> None:
    status = (await api.delete(f"{path}/a", propagationPolicy="Sometimes")).expect(422)
    assert status["message"].startswith(INVALID + "propagationPolicy")
    status = (await api.delete(f"{path}/a", gracePeriodSeconds="abc")).expect(400)
    assert status["reason"] == "BadRequest"
    (await api.delete(f"{path}/a", gracePeriodSeconds=0, propagationPolicy="Background")).expect(200)


async def test_options_may_name_their_kind(api: RawApi, path: str) -> None:
    uid = (await api.get(f"{path}/a")).expect(200)["metadata"]["uid"]
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": -5}
    gone = (await api.delete(f"{path}/a", options)).expect(200)
    assert gone == success({"name": "a", "kind": "secrets", "uid": uid})


async def test_a_grace_period_means_nothing_without_finalizers(api: RawApi, path: str) -> None:
    (await api.delete(f"{path}/a", {"gracePeriodSeconds": 60})).expect(200)
    (await api.get(f"{path}/a")).expect(404)


async def test_a_collection(api: RawApi, path: str, namespace: str) -> None:
    deleted = (await api.delete(path, labelSelector="name in (a,b)")).expect(200)
    assert deleted["kind"] == "SecretList"
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "b"]
    left = (await api.get(path)).expect(200)["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


async def test_a_page_of_a_collection(api: RawApi, path: str) -> None:
    deleted = (await api.delete(path, limit=1)).expect(200)
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a"]
    assert deleted["metadata"]["remainingItemCount"] == 2
    again = (await api.delete(path, limit=1, **{"continue": deleted["metadata"]["continue"]})).expect(200)
    assert [item["metadata"]["name"] for item in again["items"]] == ["b"]
    assert [item["metadata"]["name"] for item in (await api.get(path)).expect(200)["items"]] == ["c"]


async def test_a_collection_by_field(api: RawApi, path: str) -> None:
    (await api.delete(path, fieldSelector="metadata.name!=b")).expect(200)
    assert [item["metadata"]["name"] for item in (await api.get(path)).expect(200)["items"]] == ["b"]


async def test_a_collection_with_nothing_in_it(api: RawApi, path: str) -> None:
    assert (await api.delete(path, labelSelector="name=none")).expect(200)["items"] == []


async def test_a_collection_dry(api: RawApi, path: str) -> None:
    (await api.delete(path, dryRun="All")).expect(200)
    assert len((await api.get(path)).expect(200)["items"]) == 3


async def test_no_collection_across_namespaces(api: RawApi) -> None:
    status = (await api.delete("/api/v1/secrets", labelSelector="nobody=has")).expect(405)
    assert status["reason"] == "MethodNotAllowed"
    assert status["message"] == "the server does not allow this method on the requested resource"
