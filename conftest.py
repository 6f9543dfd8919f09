"""Fixtures for the suites that run on both control planes.

`control_plane` is shared by a session: a test keeps to its `namespace`, or names what it makes outside of one by
`unique_name`. `isolated_control_plane` is a test's own, for those that restart, kill or fill it.
The kube half of every such test carries the marker `kube`.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead.election.fence import anchor_manifests
from kube_fairlead_lab.testing import ControlPlane, KubeControlPlane
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.planes import BOTH, make_plane

# How long an example takes says something of the machine and what else it does, nothing of the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

# A shell without job control has its background jobs ignore Ctrl-C, and what they start inherits that. Tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Whole systems at work: programs that start, elect, drain, are killed. Seconds each, so `make test` leaves them to
# `make test-system`, and a newcomer's first run stays short.
SYSTEMS = (
    "tests/contract/test_install.py",
    "tests/examples",
    "tests/hardening",
    "tests/interop",
    "tests/sim",
    "tests/spec/kep4802",
    "tests/spec/kep5366",
    "tests/spec/kep5683",
    "tests/spec/kep5778",
    "tests/wheels",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SYSTEMS):
            item.add_marker(pytest.mark.system)


@pytest.fixture(scope="session", params=BOTH)
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from watch_over(request.config, make_plane(request.param, tmp_path_factory.mktemp(request.param)))


@pytest.fixture(params=BOTH)
def isolated_control_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    yield from watch_over(request.config, make_plane(request.param, tmp_path_factory.mktemp(request.param)))


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[RawApi]:
    """The administrator, over plain HTTP."""
    async with RawApi(control_plane.access()) as session:
        if isinstance(control_plane, KubeControlPlane):
            await keep_leases_followed(session)
        yield session


async def keep_leases_followed(api: RawApi) -> None:
    """Have a policy with Leases as parameters all the time: tests make fences, and take the last one away again."""
    registration = "/apis/admissionregistration.k8s.io/v1"
    policy, binding = anchor_manifests()
    (await api.post(f"{registration}/validatingadmissionpolicies", policy)).expect(201, 409)
    (await api.post(f"{registration}/validatingadmissionpolicybindings", binding)).expect(201, 409)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder for unix sockets, whose paths may have 107 bytes; `tmp_path` alone can have more."""
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def unique_name() -> Callable[[str], str]:
    """Names that no other test has."""
    ids = RandomIds(SystemRandomness())
    return lambda prefix: f"{prefix}-{ids.name_suffix()}{ids.name_suffix()}"


@pytest.fixture
async def namespace(api: RawApi, unique_name: Callable[[str], str]) -> AsyncIterator[str]:
    """A namespace of the test's own, furnished: pods may be made in it, and nothing else appears by itself."""
    name = unique_name("test")
    path = f"/api/v1/namespaces/{name}"
    async with (
        api.watch(f"{path}/serviceaccounts", fieldSelector="metadata.name=default") as accounts,
        api.watch(f"{path}/configmaps", fieldSelector="metadata.name=kube-root-ca.crt") as bundles,
    ):
        (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
        await accounts.until(lambda event: event["type"] == "ADDED")
        await bundles.until(lambda event: event["type"] == "ADDED")
    yield name
    (await api.delete(f"/api/v1/namespaces/{name}")).expect(200)
