"""Both control planes at once: generated cases are sent to each, and the answers compared.

What kube-apiserver says is the expectation, so nothing here can be wrong about Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from fairlead.testing import (
    ControlPlane,
    EmbeddedControlPlane,
    EmbeddedOptions,
    KubeControlPlane,
    KubeOptions,
    require_real,
)
from fairlead.testing.binaries import KubeBinaries

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
