"""Requests that nobody would think of, made from the published OpenAPI: whatever they are answered, it is no 5xx."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.control_plane import Access
from kube_fairlead_lab.testing.plugin import watch_over

# The library's own code warns on current Python and libraries; that is not ours to fail on.
pytestmark = pytest.mark.filterwarnings("default")

GROUPS = [
    "api/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/autoscaling/v2",
    "apis/batch/v1",
    "apis/certificates.k8s.io/v1",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/networking.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/storage.k8s.io/v1",
]


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedControlPlane]:
    """A server of its own: what is written here would disturb others."""
    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path_factory.mktemp("schemathesis")))


def document(access: Access, group: str) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=str(access.ca_file))
    asked = urllib.request.Request(
        f"{access.url}/openapi/v3/{group}", headers={"Authorization": f"Bearer {access.token}"}
    )
    with urllib.request.urlopen(asked, context=context) as answer:
        read: dict[str, Any] = json.load(answer)
        return read


def operations(access: Access, group: str) -> list[Any]:
    schema: Any = schemathesis.openapi.from_dict(document(access, group))
    found = [result.ok() for result in schema.get_all_operations()]
    # A watch is an answer without an end.
    return [operation for operation in found if "/watch/" not in operation.path]


def steer(case: Any, draw: Any) -> None:
    """Bring some of the requests past the first door: to a namespace that is there, a name and kind that fit."""
    if case.query:
        case.query.pop("watch", None)
    if not draw(st.booleans()):
        return
    parameters = case.path_parameters or {}
    if "namespace" in parameters:
        parameters["namespace"] = "default"
    if "name" in parameters:
        parameters["name"] = draw(st.sampled_from(["a", "default", "kube-root-ca.crt", "b"]))
    if isinstance(case.body, dict):
        said = case.body.get("metadata")
        metadata = {**said, "name": parameters.get("name", "a")} if isinstance(said, dict) else {"name": "a"}
        metadata.pop("namespace", None)
        kind = case.operation.definition.raw.get("x-kubernetes-group-version-kind", {})
        version = f"{kind.get('group')}/{kind.get('version')}".removeprefix("/")
        case.body |= {"metadata": metadata, "kind": kind.get("kind"), "apiVersion": version}


def try_operations(access: Access, group: str, examples: int, *, every: int = 1, repeatable: bool = False) -> int:
    tried = 0
    for operation in operations(access, group)[::every]:

        @given(case=operation.as_strategy(), data=st.data())
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=repeatable,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def try_one(case: Any, data: Any) -> None:
            nonlocal tried
            tried += 1
            steer(case, data.draw)
            headers = {"Authorization": f"Bearer {access.token}"}
            answer = case.call(base_url=access.url, headers=headers, verify=str(access.ca_file), timeout=30)
            if answer.status_code >= 500:
                shown = case.as_curl_command().replace(str(access.token), "TOKEN")
                pytest.fail(f"{answer.status_code}: {answer.text[:2000]}\n{shown}")

        try_one()
    return tried


@pytest.mark.parametrize("group", GROUPS)
def test_a_few(plane: EmbeddedControlPlane, group: str) -> None:
    assert try_operations(plane.access(), group, 2, every=5, repeatable=True) > 0
    asyncio.run(_still_there(plane))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("group", GROUPS)
def test_many(plane: EmbeddedControlPlane, group: str) -> None:
    assert try_operations(plane.access(), group, 100) > 0
    asyncio.run(_still_there(plane))


async def _still_there(plane: EmbeddedControlPlane) -> None:
    assert plane.apiserver.running
    async with plane.client() as client:
        assert client is not None
