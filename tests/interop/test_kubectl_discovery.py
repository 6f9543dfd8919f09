"""kubectl explain, api-resources, api-versions, auth, version."""

from __future__ import annotations

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.binaries import KubeBinaries
from tests.interop.conftest import Kubectl

pytestmark = pytest.mark.kube


async def test_explain(kubectl: Kubectl) -> None:
    said = await kubectl("explain", "pods.spec.containers.image")
    assert "FIELD: image <string>" in said.out
    said = await kubectl("explain", "deployments", "--recursive")
    assert said.lines[:3] == ["GROUP:      apps", "KIND:       Deployment", "VERSION:    v1"]
    assert "terminationGracePeriodSeconds\t<integer>" in said.out
    said = await kubectl("explain", "pods.spec.nothing", code=1)
    assert 'field "nothing" does not exist' in said.err
    for resource in ("nodes", "configmaps", "leases", "poddisruptionbudgets", "customresourcedefinitions"):
        assert (await kubectl("explain", resource)).out


async def test_api_resources(kubectl: Kubectl) -> None:
    said = await kubectl("api-resources", "--no-headers")
    rows = [line.split() for line in said.lines]
    assert ["pods", "po", "v1", "true", "Pod"] in rows
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
    names = (await kubectl("api-resources", "--api-group=policy", "-o", "name")).lines
    assert names == ["poddisruptionbudgets.policy"]
    listable = (await kubectl("api-resources", "--verbs=list,create", "--namespaced=false", "-o", "name")).lines
    assert {"nodes", "namespaces"} <= set(listable)


async def test_api_versions(kubectl: Kubectl) -> None:
    assert {"v1", "apps/v1", "policy/v1", "apiextensions.k8s.io/v1"} <= set((await kubectl("api-versions")).lines)


async def test_version(kubectl: Kubectl) -> None:
    said = (await kubectl("version", "-o", "json")).json
    assert said["serverVersion"]["gitVersion"].startswith("v1.")


async def test_may_i(kubectl: Kubectl) -> None:
    assert (await kubectl("auth", "can-i", "delete", "pods")).out == "yes\n"
    said = await kubectl("auth", "can-i", "delete", "pods", "--as=bob", code=1)
    assert said.out.startswith("no")
    assert "*.*" in (await kubectl("auth", "can-i", "--list")).out


async def test_who_am_i(kubectl: Kubectl, control_plane: ControlPlane) -> None:
    said = (await kubectl("auth", "whoami", "-o", "json")).json
    assert "system:masters" in said["status"]["userInfo"]["groups"]


async def test_someone_else(kubectl: Kubectl, control_plane: ControlPlane, namespace: str) -> None:
    await kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    await kubectl("create", "rolebinding", "readers", "--role=reader", "--user=alice")
    binary = KubeBinaries.find().component("kubectl")
    alice = Kubectl(binary, control_plane.kubeconfig_for("alice"), namespace, kubectl.folder)
    await alice("get", "configmaps")
    said = await alice("get", "pods", code=1)
    assert said.err == (
        'Error from server (Forbidden): pods is forbidden: User "alice" cannot list resource "pods" in API group "" in '
        f'the namespace "{namespace}"\n'
    )
    assert (await alice("auth", "can-i", "get", "configmaps")).out == "yes\n"


async def test_raw(kubectl: Kubectl) -> None:
    assert (await kubectl("get", "--raw", "/readyz")).out == "ok"
    assert "[+]ping ok" in (await kubectl("get", "--raw", "/livez?verbose")).out


async def test_create_token(kubectl: Kubectl) -> None:
    said = await kubectl("create", "token", "default", "--duration=10m")
    assert said.out.count(".") == 2
