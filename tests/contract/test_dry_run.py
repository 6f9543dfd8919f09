"""Dry runs answer as if, and leave nothing behind."""

from __future__ import annotations

import pytest

from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def test_create(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a"), dryRun="All")).expect(201)
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"]
    assert "resourceVersion" not in made["metadata"]
    (await api.get(f"{path}/a")).expect(404)


async def test_create_of_what_exists(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("a"))).expect(201)
    assert (await api.post(path, config_map("a"), dryRun="All")).expect(409)["reason"] == "AlreadyExists"


async def test_replace_and_patch(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a", {"k": "v"}))).expect(201)
    replaced = (await api.put(f"{path}/a", config_map("a", {"k": "w"}), dryRun="All")).expect(200)
    assert replaced["data"] == {"k": "w"}
    patched = (await api.patch(f"{path}/a", {"data": {"k": "x"}}, dryRun="All")).expect(200)
    assert patched["data"] == {"k": "x"}
    assert (await api.get(f"{path}/a")).expect(200) == made


async def test_delete(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a"))).expect(201)
    (await api.delete(f"{path}/a", dryRun="All")).expect(200)
    (await api.delete(f"{path}/a", {"dryRun": ["All"]})).expect(200)
    assert (await api.get(f"{path}/a")).expect(200) == made


async def test_invalid_is_still_invalid(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("NOT_VALID"), dryRun="All")).expect(422)


async def test_only_all_is_a_dry_run(api: RawApi, path: str) -> None:
    status = (await api.post(path, config_map("a"), dryRun="Some")).expect(422)
    assert status["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"'
    )
