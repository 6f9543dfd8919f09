"""What a client is told about finalizers of custom resources that others may use, too."""

from __future__ import annotations

from collections.abc import Callable

from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import RawApi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_new_finalizers_are_warned_about_once(
    api: RawApi, namespace: str, unique_name: Callable[[str], str]
) -> None:
    group = f"{unique_name('g')}.example.com"
    (await api.post(CRDS, custom_resource_definition("widgets", group, kind="Widget"))).expect(201)
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    await api.poll(path, lambda answer: answer.code == 200)
    finalizers = ["example.com", "example.com/fine", "orphan", "plain"]
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "finalizers": finalizers}}
    made = await api.post(path, body)
    made.expect(201)
    prefer = "prefer a domain-qualified finalizer name"
    others = "to avoid accidental conflicts with other finalizer writers"
    assert made.headers.getall("Warning") == [  # type: ignore[attr-defined] # aiohttp's headers may repeat
        f'299 - "metadata.finalizers: \\"example.com\\": {prefer} including a path (/) {others}"',
        f'299 - "metadata.finalizers: \\"plain\\": {prefer} {others}"',
    ]
    changed = await api.patch(f"{path}/w", {"metadata": {"labels": {"a": "b"}, "finalizers": [*finalizers, "more"]}})
    changed.expect(200)
    assert changed.headers["Warning"] == f'299 - "metadata.finalizers: \\"more\\": {prefer} {others}"'
    (await api.patch(f"{path}/w", {"metadata": {"finalizers": None}})).expect(200)
    (await api.delete(f"{CRDS}/widgets.{group}")).expect(200)
