"""A wheel of each distribution, installed outside the repository: commands, data files and the pytest plugin work."""

from __future__ import annotations

import os
import pathlib
import re
import zipfile
from typing import Any

import pytest

from tests.wheels.installation import MAX_MEGABYTES, MAX_PACKAGES, Installation, build_wheels, find_interpreter

pytestmark = pytest.mark.timeout(900)

PRODUCT, SERVER, LAB = "kube-fairlead", "kube-fairlead-apiserver", "kube-fairlead-lab"
# `make test-system` tries the Python at hand, `make test-long` all that the distributions support, and
# `make test-wheels` those that it is given.
VERSIONS: list[Any] = os.environ.get("FAIRLEAD_PYTHONS", "").split() or [
    pytest.param("3.11"),
    *(pytest.param(version, marks=pytest.mark.long) for version in ("3.12", "3.13", "3.14")),
]
OPERATOR_TEST = """
from kube_fairlead_lab.testing import EmbeddedControlPlane


async def test_it(fairlead_apiserver):
    assert isinstance(fairlead_apiserver, EmbeddedControlPlane)
    async with fairlead_apiserver.client() as client:
        assert client is not None


def test_sync(fairlead_apiserver):
    assert fairlead_apiserver.kubeconfig.exists()
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    if built := os.environ.get("FAIRLEAD_WHEELS"):
        return pathlib.Path(built)  # the files that a release publishes
    return build_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_product_alone(version: str, wheels: pathlib.Path, tmp_path: pathlib.Path) -> None:
    environment = Installation(tmp_path, find_interpreter(version), wheels)
    environment.install(PRODUCT)
    for program in ("fairlead", "kubectl-fairlead"):
        done = environment.run(program, "--help")
        assert (done.returncode, done.stderr) == (0, "")
    missing = environment.run("fairlead", "apiserver", "--data-dir", "data")
    assert missing.returncode == 2
    assert missing.stderr.count("\n") <= 4
    assert "pip install kube-fairlead-apiserver" in missing.stderr
    printed = environment.run("fairlead", "install", "--image", "example.com/fairlead:1")
    assert printed.returncode == 0, printed.stderr
    assert "kind: DaemonSet" in printed.stdout
    protocol = environment.run("python", "-c", "import kube_fairlead.driverapi.contracts, kube_fairlead.cloud.registry")
    assert protocol.returncode == 0, protocol.stderr
    providers = environment.run("fairlead", "cloud-controller-manager", "--cloud-provider=none-such")
    assert providers.returncode == 2
    assert "static" in providers.stderr  # found by its entry point


def test_the_product_brings_little(wheels: pathlib.Path, tmp_path: pathlib.Path) -> None:
    environment = Installation(tmp_path, find_interpreter("3.11"), wheels)
    environment.install(PRODUCT)
    packages = environment.packages()
    own = packages.pop(PRODUCT)
    assert len(packages) <= MAX_PACKAGES, sorted(packages)
    assert sum(packages.values()) <= MAX_MEGABYTES * 1_000_000, packages
    assert own < 10_000_000
    assert not {"apsw", "cryptography", "google-re2", "httptools", "uvloop"} & set(packages)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_three(version: str, wheels: pathlib.Path, tmp_path: pathlib.Path) -> None:
    environment = Installation(tmp_path, find_interpreter(version), wheels)
    environment.install(f"{PRODUCT}[all]")
    assert {PRODUCT, SERVER, LAB} <= set(environment.packages())
    for command in ("apiserver", "demo", "sim", "hollow"):
        done = environment.run("fairlead", command, "--help")
        assert (done.returncode, done.stderr) == (0, ""), command
    played = environment.run("fairlead", "sim", "--seed=1", "--steps=5")
    assert played.returncode == 0, played.stdout + played.stderr
    shown = environment.run("fairlead", "demo", "--scene=api-server", "--scene=graceful-deletion")
    assert shown.returncode == 0, shown.stdout + shown.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_the_plugin_comes_with_the_lab_alone(version: str, wheels: pathlib.Path, tmp_path: pathlib.Path) -> None:
    environment = Installation(tmp_path, find_interpreter(version), wheels)
    environment.install(LAB, "pytest", "pytest-asyncio")
    (tmp_path / "test_operator.py").write_text(OPERATOR_TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    done = environment.run("pytest", "-q", "test_operator.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_a_wheel_has_the_license_types_and_nothing_else(wheels: pathlib.Path) -> None:
    for name in (PRODUCT, SERVER, LAB):
        package = name.replace("-", "_")
        (wheel,) = wheels.glob(f"{package}-[0-9]*.whl")
        files = zipfile.ZipFile(wheel).namelist()
        assert f"{package}/py.typed" in files
        assert any(re.fullmatch(rf"{package}-[^/]*\.dist-info/licenses/LICENSE", file) for file in files)
        assert {file.partition("/")[0].partition("-")[0] for file in files} == {package}
