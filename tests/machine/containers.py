"""containerd and runc from Debian's packages, an image made by hand, and pods made as a kubelet makes them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kube_fairlead.base.environment import Environment
from kube_fairlead.base.rpc import client
from kube_fairlead_lab.testing.real import require_real
from tests.machine.machine import Machine

_PACKAGES = ("containerd", "runc", "busybox-static")
_IMAGE = "registry.local/busybox:1"
_PAUSE = "registry.local/pause:1"
_APPLETS = ("sh", "sleep", "echo", "date", "cat", "true")
_UNIT = """[Service]
Environment=PATH={root}/usr/bin:{root}/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart={root}/usr/bin/containerd -c /share/containerd.toml
Type=notify
Delegate=yes
KillMode=process
StandardOutput=append:/share/containerd.log
StandardError=append:/share/containerd.log
"""
_CONFIG = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "/share/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{root}/usr/sbin/runc"
        SystemdCgroup = false
"""
# Message: its fields as (name, number, type); a type with a capital is a message, a trailing * means repeated.
_MESSAGES: dict[str, list[tuple[str, int, str]]] = {
    "PodSandboxMetadata": [("name", 1, "s"), ("uid", 2, "s"), ("namespace", 3, "s")],
    "NamespaceOption": [("network", 1, "i"), ("pid", 2, "i"), ("ipc", 3, "i")],
    "LinuxSandboxSecurityContext": [("namespace_options", 1, "NamespaceOption")],
    "LinuxPodSandboxConfig": [("security_context", 2, "LinuxSandboxSecurityContext")],
    "Pair": [("key", 1, "s"), ("value", 2, "s")],
    "PodSandboxConfig": [
        ("metadata", 1, "PodSandboxMetadata"),
        ("hostname", 2, "s"),
        ("log_directory", 3, "s"),
        ("labels", 6, "Pair*"),
        ("linux", 8, "LinuxPodSandboxConfig"),
    ],
    "RunPodSandboxRequest": [("config", 1, "PodSandboxConfig")],
    "Named": [("id", 1, "s")],
    "LinuxContainerSecurityContext": [("namespace_options", 3, "NamespaceOption")],
    "LinuxContainerConfig": [("security_context", 2, "LinuxContainerSecurityContext")],
    "ContainerConfig": [
        ("metadata", 1, "Named"),
        ("image", 2, "Named"),
        ("command", 3, "s*"),
        ("labels", 9, "Pair*"),
        ("annotations", 10, "Pair*"),
        ("log_path", 11, "s"),
        ("linux", 15, "LinuxContainerConfig"),
    ],
    "CreateContainerRequest": [
        ("pod_sandbox_id", 1, "s"),
        ("config", 2, "ContainerConfig"),
        ("sandbox_config", 3, "PodSandboxConfig"),
    ],
}


def install(machine: Machine) -> None:
    """Have containerd on a machine that is not booted yet."""
    root = _unpacked()
    data = machine.folder / "containerd"
    data.mkdir()
    machine.runs_containers = True
    machine.binds[data] = "/var/lib/containerd"  # an overlay cannot be the upper layer of another
    machine.unit("containerd.service", _UNIT.format(root=root))
    (machine.share / "containerd.toml").write_text(_CONFIG.format(pause=_PAUSE, root=root))
    _write_images(root / "bin" / "busybox", machine.share / "images.tar")


def start(machine: Machine) -> None:
    """Start containerd and give it its images."""
    machine.run("systemctl", "start", "containerd")
    ctr = str(_unpacked() / "usr" / "bin" / "ctr")
    machine.run(ctr, "-a", "/share/containerd.sock", "-n", "k8s.io", "images", "import", "/share/images.tar")


class Pods:
    """Starts pods as a kubelet would."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def start(self, name: str, uid: str, script: str) -> None:
        """A pod with one container of the same name, whose output goes to the share."""
        labels = {
            "io.kubernetes.pod.name": name,
            "io.kubernetes.pod.namespace": "default",
            "io.kubernetes.pod.uid": uid,
        }
        pairs = [_message("Pair")(key=key, value=value) for key, value in labels.items()]
        on_node = _message("NamespaceOption")(network=2)
        security = _message("LinuxSandboxSecurityContext")(namespace_options=on_node)
        sandbox = _message("PodSandboxConfig")(
            metadata=_message("PodSandboxMetadata")(name=name, uid=uid, namespace="default"),
            log_directory="/share/pods",
            labels=pairs,
            linux=_message("LinuxPodSandboxConfig")(security_context=security),
        )
        sandbox_id = await self._call("RunPodSandbox", _message("RunPodSandboxRequest")(config=sandbox))
        context = _message("LinuxContainerSecurityContext")(namespace_options=on_node)
        container = _message("ContainerConfig")(
            metadata=_message("Named")(id=name),
            image=_message("Named")(id=_IMAGE),
            command=["/bin/sh", "-c", script],
            labels=pairs,
            log_path=f"{name}.log",
            linux=_message("LinuxContainerConfig")(security_context=context),
        )
        create = _message("CreateContainerRequest")(pod_sandbox_id=sandbox_id, config=container, sandbox_config=sandbox)
        container_id = await self._call("CreateContainer", create)
        await self._call("StartContainer", _message("Named")(id=container_id))

    def said(self, name: str) -> list[str]:
        """What a container has said, without the runtime's own marks."""
        path = self._machine.share / "pods" / f"{name}.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split(" ", 3)[3] for line in lines]

    def when(self, name: str, word: str) -> str:
        """When it said that, as the runtime noted it; such times sort as text."""
        path = self._machine.share / "pods" / f"{name}.log"
        return next(line.split(" ", 1)[0] for line in path.read_text().splitlines() if line.endswith(f" {word}"))

    async def _call(self, method: str, request: Any) -> str:
        target = client.Target(str(self._machine.share / "containerd.sock"))
        data = await client.unary(target, f"/runtime.v1.RuntimeService/{method}", request.SerializeToString())
        return str(_message("Named").FromString(data).id)


@functools.cache
def _unpacked() -> pathlib.Path:
    """The packages, unpacked into the cache; nothing is installed."""
    root = _cache() / "unpacked"
    if (root / "usr" / "bin" / "containerd").exists():
        return root
    tools = [name for name in ("apt-get", "dpkg") if shutil.which(name) is None]
    require_real("containerd", present=not tools, remedy="this test takes it from Debian's packages")
    fresh = _cache() / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    download = ["apt-get", "download", "-q", *_PACKAGES]
    got = subprocess.run(download, check=False, cwd=fresh, capture_output=True, text=True)
    require_real("containerd", present=got.returncode == 0, remedy=f"apt-get download fails: {got.stderr[-300:]}")
    for package in fresh.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(fresh / "root")], check=True)
    with contextlib.suppress(OSError):  # another test was first
        (fresh / "root").rename(root)
    return root


def _cache() -> pathlib.Path:
    environment = Environment.of_process()
    base = environment.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else environment.home() / ".cache") / "fairlead" / "containerd"


def _write_images(busybox: pathlib.Path, target: pathlib.Path) -> None:
    """Two images of one layer, as `docker save` writes them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for folder in ("bin", "etc", "tmp", "proc", "sys", "dev"):
            _add(layer, folder, kind=tarfile.DIRTYPE)
        _add(layer, "bin/busybox", busybox.read_bytes())
        for applet in _APPLETS:
            _add(layer, f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
    layer_bytes = buffer.getvalue()
    digest = hashlib.sha256(layer_bytes).hexdigest()
    pause = ["/bin/sh", "-c", 'trap "exit 0" TERM INT; while :; do sleep 100000 & wait; done']
    with tarfile.open(target, "w") as archive:
        _add(archive, f"{digest}/layer.tar", layer_bytes)
        manifest = []
        for reference, entry in ((_IMAGE, ["/bin/sh"]), (_PAUSE, pause)):
            config = json.dumps(
                {
                    "architecture": "amd64",
                    "os": "linux",
                    "config": {"Env": ["PATH=/bin"], "Entrypoint": entry},
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                }
            ).encode()
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(archive, name, config)
            manifest.append({"Config": name, "RepoTags": [reference], "Layers": [f"{digest}/layer.tar"]})
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _add(
    archive: tarfile.TarFile, name: str, data: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type, entry.linkname, entry.size = 0o755, kind, link, len(data)
    archive.addfile(entry, io.BytesIO(data))


@functools.cache
def _pool() -> Any:
    # A map is on the wire a list of pairs; so the tests need no more than lists.
    file = descriptor_pb2.FileDescriptorProto(name="pods.proto", package="pods", syntax="proto3")
    scalar = {"s": descriptor_pb2.FieldDescriptorProto.TYPE_STRING, "i": descriptor_pb2.FieldDescriptorProto.TYPE_INT32}
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            bare = kind.removesuffix("*")
            added = message.field.add(name=field, number=number, label=3 if kind.endswith("*") else 1)
            if bare in scalar:
                added.type = scalar[bare]
            else:
                added.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
                added.type_name = f".pods.{bare}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


@functools.cache
def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"pods.{name}"))
