"""A control plane of each test's own, with an audit log, on both kinds; the emulated EC2 and a witness before it."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator, Iterator

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
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.clouds.aws import CREDENTIALS, EmulatedAws, emulated_aws
from tests.clouds.proxy import recording_proxy
from tests.spec.kep5778.hybrid import Hybrid


@pytest.fixture(params=["embedded", pytest.param("kube", marks=pytest.mark.kube)])
def audited_plane(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[ControlPlane]:
    plane: EmbeddedControlPlane | KubeControlPlane
    if request.param == "embedded":
        plane = EmbeddedControlPlane(tmp_path, EmbeddedOptions(audit=True))
    else:
        binaries = KubeBinaries.find()
        missing = binaries.missing("etcd", "kube-apiserver")
        require_real("real Kubernetes", present=not missing, remedy="run: make kube")
        plane = KubeControlPlane(tmp_path, KubeOptions(audit_policy={}), binaries=binaries)
    yield from watch_over(request.config, plane)


@pytest.fixture
def aws() -> Iterator[EmulatedAws]:
    with emulated_aws() as emulated:
        yield emulated


@pytest.fixture
async def hybrid(
    audited_plane: ControlPlane, aws: EmulatedAws, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hybrid]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    async with RawApi(audited_plane.access(), timeout_seconds=60) as api, recording_proxy(aws.url) as witness:
        made = Hybrid(audited_plane, api, aws, witness, tmp_path)
        try:
            yield made
        finally:
            await made.stop()
