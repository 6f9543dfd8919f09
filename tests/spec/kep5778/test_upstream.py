"""Kubernetes' own cloud controller manager, of a cloud in Go, beside ours: each initialises its own node and touches no
other's. The API server keeps the first to it, because by itself it would not."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from kube_fairlead.base import files
from kube_fairlead.install import bundle
from kube_fairlead.install.cloud_managers import other_managers
from kube_fairlead.install.installation import Installation
from kube_fairlead_lab.testing import Access
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.goprograms import go_program
from tests.spec.kep5778.cluster import NODES, apply, create_node, set_ready, until_refused
from tests.spec.kep5778.hybrid import Hybrid, Write

pytestmark = pytest.mark.timeout(600)

Json = dict[str, Any]

_SOURCES = pathlib.Path(__file__).parents[2] / "interop" / "gocloudmanager"
_NAMESPACE, _ACCOUNT = "kube-system", "fog-cloud-controller-manager"
_USER = f"system:serviceaccount:{_NAMESPACE}:{_ACCOUNT}"
# What the manager of a cloud is usually granted: all nodes, whosever they are.
_RULES = [
    {"apiGroups": [""], "resources": ["nodes", "nodes/status", "services", "services/status"], "verbs": ["*"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["*"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
]


@pytest.fixture(scope="module")
def upstream() -> pathlib.Path:
    return go_program(_SOURCES)


async def account(api: RawApi) -> Access:
    here = {"name": _ACCOUNT, "namespace": _NAMESPACE}
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": _ACCOUNT}, "rules": _RULES}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": _ACCOUNT},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": _ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", **here}],
    }
    await apply(api, [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here}, role, binding])
    path = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/{_ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = (await api.post(path, request)).expect(201)["status"]["token"]
    return Access(url=api.access.url, ca_file=api.access.ca_file, user=_USER, token=token)


class Fog:
    """The cloud of the other manager, whose machines are a file, and that manager."""

    def __init__(self, hybrid: Hybrid, program: pathlib.Path) -> None:
        self._hybrid = hybrid
        self._program = program
        self._path = hybrid.folder / "fog.json"

    def write(self, **machines: str) -> None:
        files.write_atomically(self._path, json.dumps(machines).encode())

    async def start(self, access: Access) -> None:
        config = self._hybrid.folder / "fog.conf"
        config.write_text(str(self._path), encoding="utf-8")
        command = [
            str(self._program),
            f"--kubeconfig={write_kubeconfig(self._hybrid.folder / 'fog.kubeconfig', access)}",
            *("--cloud-provider=fog", f"--cloud-config={config}", "--leader-elect=false", "--secure-port=0"),
            *("--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true", "--configure-cloud-routes=true"),
            *("--node-monitor-period=300ms", "--route-reconciliation-period=1s", "--node-status-update-frequency=2s"),
            "--controllers=*,-service-lb-controller",
        ]
        process = ManagedProcess("ccm-fog", command, folder=self._hybrid.folder)
        self._hybrid.processes["fog"] = process  # ended with the others
        process.start()


def is_refused(verb: str, node: str, subresource: str = "") -> Any:
    def wanted(write: Write) -> bool:
        asked = (write.user, write.verb, write.node, write.subresource, write.code)
        return asked == (_USER, verb, node, subresource, 403)

    return wanted


async def test_beside_the_manager_of_a_cloud_itself(hybrid: Hybrid, upstream: pathlib.Path) -> None:
    fog = Fog(hybrid, upstream)
    fog.write(**{"fog-1": "fog://1"})
    access = await account(hybrid.api)
    others = other_managers([f"{_NAMESPACE}/{_ACCOUNT}=fog"], beside=())
    await apply(hybrid.api, bundle.manifests(Installation(lifecycle=False, fenced_clouds=others)))
    hybrid.owner |= {"fog-1": "fog", "lone": ""}
    await create_node(hybrid.api, "lone", "gce://lone", ready="Unknown", pod_cidr="10.244.3.0/24")
    async with RawApi(access) as fenced:
        await until_refused(fenced, f"{NODES}/lone")
    await hybrid.start_static(foreign="lone")
    await fog.start(access)
    await create_node(hybrid.api, "fog-1", waiting=True, pod_cidr="10.244.1.0/24")
    await hybrid.join_static("rack-1", annotated=True)
    await hybrid.initialised("fog-1", "rack-1")
    assert (await hybrid.get("fog-1"))["spec"]["providerID"] == "fog://1"
    assert (await hybrid.get("rack-1"))["spec"]["providerID"] == "on-prem://rack-1"
    # Its own cloud knows neither of the two, so it means to delete both, again and again.
    for name in ("rack-1", "fog-1"):
        await set_ready(hybrid.api, name, "Unknown")
    for name in ("rack-1", "lone"):
        await hybrid.until_written(is_refused("delete", name))
    await hybrid.until_written(is_refused("patch", "lone", "status"))  # there is a route to it now, it says
    await hybrid.until("fog-1", lambda node: conditions(node).get("NetworkUnavailable") == "False")
    assert "NetworkUnavailable" not in conditions(await hybrid.get("lone"))
    fog.write()
    await hybrid.until_gone("fog-1")
    for name in ("rack-1", "lone"):
        (await hybrid.api.get(f"{NODES}/{name}")).expect(200)
    done = [write for write in hybrid.writes() if write.code < 400]
    assert {write.node for write in done if write.user == _USER} == {"fog-1"}
    assert {write.node for write in done if write.user == hybrid.managers["static"].user} == {"rack-1"}
    hybrid.judge(asked_by_name={"fog-1"})


def conditions(node: Json) -> dict[str, str]:
    return {one["type"]: one["status"] for one in node["status"].get("conditions") or []}
