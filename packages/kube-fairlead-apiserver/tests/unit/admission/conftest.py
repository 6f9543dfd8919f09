"""Fixtures for admission: a plane in memory, and real HTTPS servers for webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube_fairlead_lab.testing.credentials import CertificateAuthority
from tests.unit.admission.hookserver import HookServer
from tests.unit.admission.plane import Plane, running


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    async with running() as started:
        await started.namespace("work")
        yield started


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority.create(tmp_path_factory.mktemp("pki"))


@pytest.fixture
async def hooks(authority: CertificateAuthority) -> AsyncIterator[HookServer]:
    async with HookServer(authority) as server:
        yield server


@pytest.fixture
def other_authority(tmp_path: Path) -> CertificateAuthority:
    """One that did not sign the server's certificate."""
    return CertificateAuthority.create(tmp_path / "other")
