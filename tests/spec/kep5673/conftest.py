"""KEP-5673 lives in the API server, so its tests run on ours; `shim/` holds what stock Kubernetes can do instead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from kube_fairlead_lab.testing import ControlPlane, EmbeddedControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5673.objects import CRDS, Kind, define


@pytest.fixture(scope="session")
def control_plane(fairlead_shared_apiserver: EmbeddedControlPlane) -> ControlPlane:
    return fairlead_shared_apiserver


@pytest.fixture
async def kind(api: RawApi, namespace: str, unique_name: Callable[[str], str]) -> AsyncIterator[Kind]:
    """A kind of the test's own. What it leaves behind is set free, so that namespace and definition can go."""
    kind = await define(api, f"{unique_name('g')}.example.com", namespace)
    yield kind
    left = await api.get(kind.path())
    for item in left.json["items"] if left.code == 200 else []:
        await kind.set_finalizers(item["metadata"]["name"])
    (await api.delete(f"{CRDS}/{kind.plural}.{kind.group}")).expect(200, 404)
