from __future__ import annotations

import pathlib

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import errors, incluster

POD = Environment({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"})


def mount(folder: pathlib.Path, **files: str) -> pathlib.Path:
    for name, content in {"token": "t", "ca_crt": "PEM", "namespace": "shop\n", **files}.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


async def test_the_pods_own_account(tmp_path: pathlib.Path) -> None:
    access = incluster.load(POD, VirtualClock(), mount(tmp_path))
    assert access.server == "https://10.0.0.1:443"
    assert access.namespace == "shop"
    assert access.certificate_authority_file == tmp_path / "ca.crt"
    assert (await access.credentials.current()).authorization == "Bearer t"
    assert incluster.is_in_cluster(POD, tmp_path)


def test_an_ipv6_service(tmp_path: pathlib.Path) -> None:
    environment = Environment({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"})
    assert incluster.load(environment, VirtualClock(), mount(tmp_path)).server == "https://[fd00::1]:443"


def test_elsewhere(tmp_path: pathlib.Path) -> None:
    assert not incluster.is_in_cluster(Environment({}), mount(tmp_path))
    with pytest.raises(errors.InClusterError, match="KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set"):
        incluster.load(Environment({}), VirtualClock(), tmp_path)


def test_a_pod_without_an_account(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.InClusterError, match="automountServiceAccountToken"):
        incluster.load(POD, VirtualClock(), tmp_path)
