"""A whole node: systemd, containerd and kubelet as in any distribution, in namespaces of its own.

As `tests.machine`, with what a kubelet wants beside: /dev/kmsg, a writable /proc/sys/net, and folders that are not on
an overlay. Six sysctls of the host that a kubelet insists on are files of the node's own, so that nothing of the host
is changed. The network is the one that `hack/e2e/run.sh` made for the whole test.
"""

from __future__ import annotations

import pathlib

from tests.machine.machine import Machine

__all__ = ["Node"]

_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}


class Node(Machine):
    """One node. Its name is its host's."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        super().__init__(folder)
        self.name = name
        self.runs_containers = True
        for part, inside in (
            ("kubelet", "/var/lib/kubelet"),
            ("containerd", "/var/lib/containerd"),
            ("fairlead", "/var/lib/fairlead"),
            ("logs", "/var/log/pods"),
        ):
            (folder / "data" / part).mkdir(parents=True)
            self.binds[folder / "data" / part] = inside
        (folder / "sysctls").mkdir()
        (folder / "machine-id").write_text(f"{abs(hash(str(folder))):032x}\n")

    def more(self) -> str:
        """The kernel's messages, sysctls, the node's name and its network."""
        lines = ["touch $R/dev/kmsg; mount --bind /dev/kmsg $R/dev/kmsg"]
        lines.append("mount --bind $R/proc/sys/net $R/proc/sys/net; mount -o remount,bind,rw $R/proc/sys/net")
        for name, value in _SYSCTLS.items():
            played = self.folder / "sysctls" / name.replace("/", "_")
            played.write_text(f"{value}\n")
            lines.append(f"mount --bind {played} $R/proc/sys/{name}")
        # Containers that nobody ended and that do not listen to systemd either are not waited for a minute and a half.
        lines.append("mkdir -p $R/etc/systemd/system.conf.d")
        lines.append("printf '[Manager]\\nDefaultTimeoutStopSec=10s\\n' > $R/etc/systemd/system.conf.d/50-node.conf")
        lines.append(f"hostname {self.name}; echo {self.name} > $R/etc/hostname")
        lines.append(f"cp {self.folder}/machine-id $R/etc/machine-id")
        lines.append(f"mkdir -p $R/etc/cni/net.d; cp {self.share}/cni.conflist $R/etc/cni/net.d/10-node.conflist")
        return "\n".join(lines)
