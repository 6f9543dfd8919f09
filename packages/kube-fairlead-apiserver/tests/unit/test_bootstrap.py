"""What every cluster begins with is stored without being judged, so it is judged here."""

from __future__ import annotations

import pathlib
from typing import Any

from kube_fairlead.base.clock import RealClock
from kube_fairlead_apiserver.bootstrap import first_objects
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.security.bootstrap_policy import bootstrap_policy
from kube_fairlead_apiserver.server import ApiServer
from tests.inprocess import serving


def _said(stored: dict[str, Any]) -> dict[str, Any]:
    """An object without what differs from one creation to the next."""
    metadata = {name: value for name, value in stored["metadata"].items() if name not in _EACH_ITS_OWN}
    managed = [{**entry, "time": ""} for entry in metadata.pop("managedFields", [])]
    return {**stored, "metadata": {**metadata, "managedFields": managed}}


_EACH_ITS_OWN = ("uid", "creationTimestamp", "resourceVersion")


async def _created_as_others_are(server: ApiServer, obj: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """One of the first objects as it was stored at the start, and as admission and validation let it pass."""
    resource = server.catalog.of_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    client = InternalClient(server.core, "fairlead-apiserver")
    namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
    at_start = client.get(resource, namespace, name)
    assert at_start is not None, f"{obj['kind']} {name} is missing"
    key = resource.key(namespace, name)
    entry = server.store.read(resource.table, key)
    assert entry is not None
    await server.store.remove(resource.table, key, expected=entry.revision)
    await client.create(resource, obj, namespace=namespace)
    judged = client.get(resource, namespace, name)
    assert judged is not None
    return at_start, judged


async def test_the_first_objects_are_what_admission_and_validation_would_let_pass(tmp_path: pathlib.Path) -> None:
    async with serving(tmp_path, RealClock()) as server:
        first = first_objects(bootstrap_policy())
        assert len(first) > 100
        for obj in first:
            at_start, judged = await _created_as_others_are(server, obj)
            assert _said(at_start) == _said(judged)
