"""Many large objects in one call of kubectl: it keeps one connection, and every request on it is answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.interop.conftest import Kubectl

pytestmark = pytest.mark.kube

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def config_maps(count: int, size: int) -> str:
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{n}"}, "data": {"k": "v" * size}}
        for n in range(count)
    ]
    return "\n---\n".join(json.dumps(item) for item in items)


def large_definition(group: str, number: int, fields: int) -> dict[str, Any]:
    """A CustomResourceDefinition as generators make them: deep structures, and a paragraph for every field."""
    paragraph = "What this field is for, which values it takes and what follows from each of them. " * 4
    leaf = {"type": "string", "description": paragraph, "maxLength": 253}
    inner = {"type": "object", "description": paragraph, "properties": {f"leaf{n}": leaf for n in range(20)}}
    spec = {"type": "object", "properties": {f"part{n}": inner for n in range(fields)}}
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": f"larges{number}", "singular": f"large{number}", "kind": f"Large{number}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"larges{number}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.mark.parametrize(("count", "size"), [(12, 90_000), (40, 70_000), (4, 900_000)])
async def test_create(kubectl: Kubectl, count: int, size: int) -> None:
    said = await kubectl("create", "-f", "-", stdin=config_maps(count, size))
    assert said.lines == [f"configmap/m{n} created" for n in range(count)]


# What kubectl keeps in an annotation may have 256 KiB; server-side apply knows no such limit.
@pytest.mark.parametrize(("count", "fields", "options"), [(8, 22, ()), (3, 45, ("--server-side",))])
async def test_apply_a_bundle_of_definitions(
    kubectl: Kubectl, api: RawApi, unique_name: Callable[[str], str], count: int, fields: int, options: tuple[str, ...]
) -> None:
    group = f"{unique_name('g')}.example.com"
    definitions = [large_definition(group, number, fields) for number in range(count)]
    assert len(json.dumps(definitions[0])) > 65_536 * 2
    bundle = "\n---\n".join(json.dumps(definition) for definition in definitions)
    done = "serverside-applied" if options else "created"
    try:
        said = await kubectl("apply", *options, "-f", "-", stdin=bundle)
        names = [definition["metadata"]["name"] for definition in definitions]
        assert said.lines == [f"customresourcedefinition.apiextensions.k8s.io/{name} {done}" for name in names]
        again = await kubectl("apply", *options, "-f", "-", stdin=bundle)
        assert len(again.lines) == len(definitions)
    finally:
        for definition in definitions:
            (await api.delete(f"{CRDS}/{definition['metadata']['name']}")).expect(200, 404)
