"""A real cluster of two nodes: nothing in it is played."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from typing import Any, Final

from kube_fairlead.api import crds
from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import KubeControlPlane, KubeOptions, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.e2e.node import Node

__all__ = ["Cluster", "are_ready", "cluster", "start"]

Json = dict[str, Any]

SECONDS = 120.0
NAMES = ("na", "nb")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "failCgroupV1": False,
    "failSwapOn": False,
    "cgroupDriver": "cgroupfs",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "healthzPort": 0,
    "oomScoreAdj": 0,
    "makeIPTablesUtilChains": False,
    "evictionHard": {},
    "resolvConf": "",
    "nodeStatusUpdateFrequency": "5s",
}
_CONTAINERD = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.local/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{parts}/root/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{parts}/root/usr/sbin/runc"
        SystemdCgroup = false
"""
_SERVICE = """[Unit]
After={after}
StartLimitIntervalSec=0
[Service]
Type={type}
Environment=PATH={parts}/root/usr/bin:{parts}/root/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart={command}
Restart=always
RestartSec=200ms
KillMode={kill}
Delegate={delegate}
StandardOutput=append:/share/{name}.log
StandardError=append:/share/{name}.log
"""


# When traffic is taken from a pod, by the API server's own log.
WRITES_OF_ENDPOINTS: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse",
            "verbs": ["create", "update", "patch"],
            "resources": [{"group": "discovery.k8s.io", "resources": ["endpointslices"]}],
        },
        {"level": "None"},
    ],
}


class Cluster:
    """Two nodes, and the control plane they belong to."""

    def __init__(self, plane: KubeControlPlane, nodes: dict[str, Node], folder: pathlib.Path) -> None:
        self.plane = plane
        self.nodes = nodes
        self.folder = folder

    @property
    def audit_log(self) -> pathlib.Path:
        """Writes of EndpointSlices, one JSON object per line."""
        if self.plane.audit_log is None:
            raise RuntimeError("the API server keeps no audit log")
        return self.plane.audit_log

    async def kubectl(self, *words: str, stdin: str = "") -> str:
        """Run kubectl; what it printed."""
        command = [str(self.plane.binaries.component("kubectl")), f"--kubeconfig={self.plane.kubeconfig}", *words]
        done = await asyncio.to_thread(
            subprocess.run, command, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    async def apply(self, *objects: Json) -> None:
        await self.kubectl("apply", "-f", "-", stdin="\n---\n".join(json.dumps(one) for one in objects))

    async def pods(self, node: str = "", **labels: str) -> list[Json]:
        """The pods of the default namespace: all, or those of a node."""
        words = ["get", "pods", "-o", "json"]
        if node:
            words.append(f"--field-selector=spec.nodeName={node}")
        if labels:
            words.append("--selector=" + ",".join(f"{key}={value}" for key, value in labels.items()))
        items: list[Json] = json.loads(await self.kubectl(*words))["items"]
        return items

    def containers(self, node: str) -> list[str]:
        """The names of the containers that really run on a node, pauses aside."""
        parts = parts_folder()
        listed = self.nodes[node].run(f"{parts}/root/usr/bin/ctr", "-n", "k8s.io", "tasks", "ls", "-q").stdout.split()
        names = []
        for one in listed:
            shown = self.nodes[node].run(
                f"{parts}/root/usr/bin/ctr", "-n", "k8s.io", "containers", "info", one, check=False
            )
            labels = json.loads(shown.stdout or "{}").get("Labels") or {}
            if labels.get("io.cri-containerd.kind") == "container":
                names.append(labels["io.kubernetes.pod.name"])
        return sorted(names)

    async def until(self, what: str, holds: Any) -> None:
        """Wait for what the cluster does by itself; on failure, show what everybody said last."""
        clock = RealClock()
        try:
            async with clock.timeout(SECONDS):
                while not await holds():
                    await clock.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{self.last_words()}\n{what}: not after {SECONDS:g} s") from None

    def last_words(self) -> str:
        return "\n".join([self.plane.last_words(), *(node.console() for node in self.nodes.values())])


def parts_folder() -> pathlib.Path:
    return pathlib.Path(os.environ.get("FAIRLEAD_E2E", ""))


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """From nothing to two nodes that are ready, with an agent and a drain driver each."""
    able = os.geteuid() == 0 and bool(os.environ.get("FAIRLEAD_E2E"))
    able = able and pathlib.Path("/sys/fs/cgroup/memory").is_dir()
    require_real("real nodes", present=able, remedy="as root, on cgroup v1 or hybrid: make e2e")
    binaries = KubeBinaries.find()
    missing = binaries.missing(
        "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet"
    )
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fl-"))
    (folder / "plane").mkdir()
    options = KubeOptions(
        controllers=("*",),
        scheduler=True,
        apiserver_flags=("--allow-privileged=true", "--advertise-address=127.0.0.1"),
        audit_policy=WRITES_OF_ENDPOINTS,
    )
    plane = KubeControlPlane(folder / "plane", options, binaries=binaries)
    made = Cluster(plane, {}, folder)
    try:
        await plane.start()
        await _install_kinds(plane)
        subprocess.run(["ip", "link", "add", "nodes", "type", "bridge"], check=False, capture_output=True)  # noqa: ASYNC221 - at once
        subprocess.run(["ip", "link", "set", "nodes", "up"], check=True)  # noqa: ASYNC221 - at once
        for number, name in enumerate(NAMES, 1):
            made.nodes[name] = _prepare(plane, folder, name, number)
        await asyncio.gather(*(asyncio.to_thread(start, node) for node in made.nodes.values()))
        await made.until("both nodes are ready", lambda: are_ready(made))
        yield made
    finally:
        for node in made.nodes.values():
            node.destroy()
        await plane.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(plane: KubeControlPlane, folder: pathlib.Path, name: str, number: int) -> Node:
    parts = parts_folder()
    node = Node(folder / f"{name}-{uuid.uuid4().hex[:6]}", name)
    address = f"10.77.0.{10 + number}"
    subprocess.run(["ip", "addr", "replace", f"{address}/32", "dev", "nodes"], check=True)
    ranges = [[{"subnet": f"10.78.{number}.0/24"}]]
    ipam = {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    plugin = {"type": "ptp", "ipMasq": False, "ipam": ipam}
    network = {"cniVersion": "0.4.0", "name": "nodes", "plugins": [plugin]}
    kubeconfig = plane.kubeconfig_for(f"system:node:{name}", ["system:nodes"])
    files = {
        "cni.conflist": json.dumps(network),
        "kubelet.json": json.dumps({**_KUBELET, "port": 10250 + number}),
        "containerd.toml": _CONTAINERD.format(parts=parts),
        "kubelet.kubeconfig": kubeconfig.read_text(),
        "admin.kubeconfig": plane.kubeconfig.read_text(),
    }
    for file, text in files.items():
        (node.share / file).write_text(text)
    kubelet = (
        f"{plane.binaries.component('kubelet')} --config=/share/kubelet.json --kubeconfig=/share/kubelet.kubeconfig"
    )
    fairlead = f"{sys.executable} -m kube_fairlead.cli"
    way = f"--kubeconfig=/share/admin.kubeconfig --node-name={name}"
    for unit, command, after in (
        ("containerd", f"{parts}/root/usr/bin/containerd -c /share/containerd.toml", "dbus.service"),
        ("kubelet", f"{kubelet} --hostname-override={name} --node-ip={address} --v=2", "containerd.service"),
        ("fairlead-agent", f"{fairlead} agent {way}", "kubelet.service"),
        ("fairlead-drain", f"{fairlead} driver drain {way}", "kubelet.service"),
    ):
        ours = unit.startswith("fairlead")
        text = _SERVICE.format(
            after=after,
            parts=parts,
            command=command,
            name=unit,
            type="notify" if unit == "containerd" else "exec",
            kill="control-group" if ours else "process",
            delegate="no" if ours else "yes",
        )
        node.unit(f"{unit}.service", text)
    return node


def start(node: Node) -> None:
    """Boot a node, the first time or again, with all that runs on it."""
    node.boot()
    node.run("systemctl", "start", "containerd")
    ctr = f"{parts_folder()}/root/usr/bin/ctr"
    node.run(ctr, "-n", "k8s.io", "images", "import", f"{parts_folder()}/images.tar")
    node.run("systemctl", "start", "kubelet", "fairlead-agent", "fairlead-drain")


async def _install_kinds(plane: KubeControlPlane) -> None:
    async with RawApi(plane.access(), timeout_seconds=60) as api:
        for manifest in crds.crds():
            (await api.post(CRDS, manifest)).expect(201)
        for manifest in crds.crds():
            kinds = f"/apis/{manifest['spec']['group']}/v1alpha1/{manifest['spec']['names']['plural']}"
            await api.poll(kinds, lambda answer: answer.code == 200)


async def are_ready(made: Cluster) -> bool:
    """Whether all nodes take pods."""
    nodes = json.loads(await made.kubectl("get", "nodes", "-o", "json"))["items"]
    ready = [
        node
        for node in nodes
        if not node["spec"].get("taints")
        and any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", []))
    ]
    return len(ready) == len(NAMES)
