from __future__ import annotations

import pytest

from kube_fairlead.api import errors
from tests.unit.admission.plane import Plane, config_map


async def test_nothing_is_made_in_a_missing_namespace(plane: Plane) -> None:
    with pytest.raises(errors.NotFound, match=r'^namespaces "nowhere" not found$') as raised:
        await plane.create(config_map("a", "nowhere"))
    assert raised.value.details == {"name": "nowhere", "kind": "namespaces"}


async def test_nothing_is_made_in_a_namespace_that_ends(plane: Plane) -> None:
    await plane.create(config_map("old"))
    await plane.delete("Namespace", "work")
    with pytest.raises(errors.Forbidden) as raised:
        await plane.create(config_map("a"))
    assert raised.value.message == (
        'configmaps "a" is forbidden: unable to create new content in namespace work because it is being terminated'
    )
    assert raised.value.has_cause("NamespaceTerminating")
    assert raised.value.causes[0] == {
        "reason": "NamespaceTerminating",
        "message": "namespace work is being terminated",
        "field": "metadata.namespace",
    }
    # What is there can still change, or nothing could be tidied up.
    await plane.change("ConfigMap", "old", lambda obj: obj["data"].update(a="b"), namespace="work")
    await plane.delete("ConfigMap", "old", namespace="work")


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_never_end(plane: Plane, name: str) -> None:
    await plane.namespace(name)
    with pytest.raises(errors.Forbidden) as raised:
        await plane.delete("Namespace", name)
    assert raised.value.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


async def test_what_has_no_namespace_needs_none(plane: Plane) -> None:
    await plane.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
