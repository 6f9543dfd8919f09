"""Both control planes at once: generated cases are sent to each, and the answers compared.

What kube-apiserver says is the expectation, so nothing here can be wrong about Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kube_fairlead_lab.testing import (
    ControlPlane,
    EmbeddedControlPlane,
    EmbeddedOptions,
    KubeControlPlane,
    KubeOptions,
    require_real,
)
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.parity import paths

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

# What the embedded server writes of each request: one event, without bodies.
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True)
class Planes:
    """The same cluster twice. Objects that a test makes must be made on both."""

    kube: KubeControlPlane
    embedded: EmbeddedControlPlane

    def __iter__(self) -> Iterator[ControlPlane]:
        return iter((self.kube, self.embedded))


@pytest.fixture(scope="session")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    binaries = KubeBinaries.find()
    missing = binaries.missing("etcd", "kube-apiserver")
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    # Neither has controllers: what they would write is no answer to a request.
    options = KubeOptions(apiserver_flags=["--enable-admission-plugins=NodeRestriction"], audit_policy=AUDIT)
    kube = KubeControlPlane(tmp_path_factory.mktemp("kube"), options, binaries=binaries)
    embedded = EmbeddedControlPlane(tmp_path_factory.mktemp("embedded"), EmbeddedOptions(audit=True))

    async def start() -> None:
        await asyncio.gather(kube.start(), embedded.start())

    async def stop() -> None:
        await kube.stop()
        await embedded.stop()

    try:
        asyncio.run(start())
        yield Planes(kube, embedded)
    finally:
        asyncio.run(stop())


@pytest.fixture(scope="session")
def defined(planes: Planes) -> None:
    """Custom resources that paths may lead to, once for all modules that a worker runs."""
    for plane in planes:
        asyncio.run(_define(plane))


async def _define(plane: ControlPlane) -> None:
    """Custom resources of both scopes."""
    async with RawApi(plane.access()) as api:
        for kind, scope in (("Widget", "Namespaced"), ("Region", "Cluster")):
            version: dict[str, Any] = {"subresources": {"status": {}}}
            plural = f"{kind.lower()}s"
            manifest = custom_resource_definition(plural, paths.GROUP, kind=kind, scope=scope, version=version)
            (await api.post(CRDS, manifest)).expect(201)
        for plural in ("widgets", "regions"):
            await api.poll(f"/apis/{paths.GROUP}/v1/{plural}", lambda answer: answer.code == 200)
