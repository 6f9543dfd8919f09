from __future__ import annotations

from pathlib import Path

import pytest

from kube_fairlead.base.environment import Environment
from kube_fairlead_lab.testing.binaries import KubeBinaries, cache_folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for program in (
        "kube/v1.36.4/bin/kubectl",
        "kube/v1.36.12/bin/kubectl",
        "kube/v1.36.12/bin/kube-apiserver",
        "kube/v1.34.9/bin/kubectl",
        "etcd/v3.7.3/bin/etcd",
        "etcd/v3.10.0/bin/etcd",
    ):
        path = tmp_path / "fairlead" / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_the_newest_patch_by_number(cache: Path) -> None:
    found = KubeBinaries.find(environment=Environment({"XDG_CACHE_HOME": str(cache)}))
    assert found.version == "v1.36.12"
    assert found.etcd == cache / "fairlead/etcd/v3.10.0/bin/etcd"
    assert found.missing("etcd", "kubectl", "kube-apiserver", "kubelet") == ["kubelet"]


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_another_minor(cache: Path, way: str) -> None:
    variables = {"XDG_CACHE_HOME": str(cache)}
    if way == "variable":
        found = KubeBinaries.find(environment=Environment({**variables, "FAIRLEAD_KUBE_VERSION": "1.34"}))
    else:
        found = KubeBinaries.find("1.34", environment=Environment(variables))
    assert found.version == "v1.34.9"
    assert found.component("kubectl").is_file()


def test_nothing_is_built(tmp_path: Path) -> None:
    found = KubeBinaries.find(environment=Environment({"HOME": str(tmp_path)}))
    assert found.missing("etcd", "kubectl") == ["etcd", "kubectl"]
    assert cache_folder(Environment({"HOME": "/home/x"})) == Path("/home/x/.cache/fairlead")


def test_another_etcd(cache: Path) -> None:
    variables = {"XDG_CACHE_HOME": str(cache), "FAIRLEAD_ETCD": "/opt/etcd"}
    assert KubeBinaries.find(environment=Environment(variables)).component("etcd") == Path("/opt/etcd")
