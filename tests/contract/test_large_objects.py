"""Objects that are larger than the storage takes: refused in etcd's words by every verb, and nothing is changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import APPLY_PATCH, JSON_PATCH, RawApi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TOO_LARGE = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "etcdserver: request is too large",
    "code": 500,
}
FITS, FITS_NOT = 1_560_000, 1_573_000  # a request to etcd has at most 1,572,864 bytes, a body at most 3,145,728


@pytest.fixture
async def widgets(api: RawApi, namespace: str, unique_name: Callable[[str], str]) -> AsyncIterator[tuple[str, str]]:
    """The path of a custom kind that takes any field, and its apiVersion."""
    group = f"{unique_name('g')}.example.com"
    definition = custom_resource_definition("widgets", group, kind="Widget")
    (version,) = definition["spec"]["versions"]
    version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version["subresources"] = {"status": {}}
    (await api.post(CRDS, definition)).expect(201)
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    probe = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "probe"}}
    await api.poll(path, lambda answer: answer.code == 201, probe, dryRun="All")
    yield path, f"{group}/v1"
    (await api.delete(f"{CRDS}/widgets.{group}")).expect(200)


def widget(api_version: str, size: int) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Widget", "metadata": {"name": "w"}, "spec": {"text": "x" * size}}


async def test_a_custom_resource_has_at_most_what_etcd_takes(api: RawApi, widgets: tuple[str, str]) -> None:
    path, api_version = widgets
    for size in (FITS_NOT, 2_000_000):
        assert (await api.post(path, widget(api_version, size))).json == TOO_LARGE
    assert (await api.post(path, widget(api_version, 2_000_000), dryRun="All")).code == 201
    (await api.post(path, widget(api_version, FITS))).expect(201)
    made = (await api.put(f"{path}/w", widget(api_version, 10) | await version_of(api, path))).expect(200)

    one, large = f"{path}/w", "y" * FITS_NOT
    answers = [
        await api.put(one, {**made, "spec": {"text": large}}),
        await api.patch(one, {"spec": {"text": large}}),
        await api.patch(one, [{"op": "add", "path": "/spec/text", "value": large}], JSON_PATCH),
        await api.patch(
            one,
            {"apiVersion": api_version, "kind": "Widget", "spec": {"more": large}},
            APPLY_PATCH,
            fieldManager="someone",
        ),
        await api.patch(f"{one}/status", {"status": {"text": large}}),
        await api.put(f"{one}/status", {**made, "status": {"text": large}}),
    ]
    assert [answer.json for answer in answers] == [TOO_LARGE] * len(answers)
    assert (await api.get(one)).expect(200) == made


async def version_of(api: RawApi, path: str) -> dict[str, Any]:
    found = (await api.get(f"{path}/w")).expect(200)
    return {"metadata": {"name": "w", "resourceVersion": found["metadata"]["resourceVersion"]}}


async def test_a_built_in_object_beyond_is_refused_as_well(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/podtemplates"

    def template(name: str, variables: int) -> dict[str, Any]:
        values = [{"name": f"V{number}", "value": "v" * 1000} for number in range(variables)]
        spec = {"containers": [{"name": "c", "image": "i", "env": values}]}
        return {"metadata": {"name": name}, "template": {"spec": spec}}

    (await api.post(path, template("fits", 1540))).expect(201)  # 1.58 MB as JSON, less as protobuf
    assert (await api.post(path, template("large", 2050))).json == TOO_LARGE


async def test_a_body_beyond_the_limit_is_413_for_every_verb(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    (await api.post(path, {"metadata": {"name": "c"}})).expect(201)
    body = {"metadata": {"name": "c"}, "data": {"text": "x" * 3_145_728}}
    for answer in (
        await api.post(path, body),
        await api.put(f"{path}/c", body),
        await api.patch(f"{path}/c", body),
        await api.delete(f"{path}/c", body),
    ):
        status = answer.expect(413)
        assert status["message"] == "Request entity too large: limit is 3145728"
        assert status["reason"] == "RequestEntityTooLarge"
    (await api.get(f"{path}/c")).expect(200)
