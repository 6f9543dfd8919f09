"""The plain life of an object: create, read, update, delete."""

from __future__ import annotations

from fairlead.testing.rawhttp import RawApi


async def test_create_fills_in_metadata(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = (await api.post(path, {"metadata": {"name": "a"}, "data": {"k": "v"}})).expect(201)
    assert made["apiVersion"] == "v1"
