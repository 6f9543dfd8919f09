"""A machine of our own: real systemd and logind as PID 1 of namespaces, over an overlay of this machine's own root.

Nothing of the host is changed: its root is only the lower layer, its /proc/sys is read-only inside, and reboot(2) in a
nested PID namespace ends that namespace and nothing else. Commands run inside only when the target is PID 1 of a
nested namespace. What is exchanged goes through the folder `share`, which both sides see.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

from kube_fairlead_lab.testing.real import require_real

_NEEDED = ("unshare", "nsenter", "dbus-daemon", "busctl", "systemctl")
_HIERARCHIES = ("systemd", "unified")
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
_SYSTEMD = pathlib.Path("/lib/systemd/systemd")
_LOGIND = pathlib.Path("/lib/systemd/systemd-logind")
_CGROUPS = pathlib.Path("/sys/fs/cgroup")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_BOOT = """set -e
mount -t tmpfs tmpfs {mnt}; mkdir {mnt}/up {mnt}/work {mnt}/root; R={mnt}/root
mount -t overlay overlay -o lowerdir=/,upperdir={mnt}/up,workdir={mnt}/work $R
mount -t proc proc $R/proc -o nosuid,noexec,nodev
mount --bind $R/proc/sys $R/proc/sys; mount -o remount,bind,ro $R/proc/sys
[ ! -e $R/proc/sysrq-trigger ] || mount --bind /dev/null $R/proc/sysrq-trigger
mount --bind {boot_id} $R/proc/sys/kernel/random/boot_id
mount -t sysfs sysfs $R/sys -o ro,nosuid,noexec,nodev 2>/dev/null || mount --rbind /sys $R/sys
mount -t tmpfs tmpfs $R/sys/fs/cgroup -o mode=755
mkdir $R/sys/fs/cgroup/systemd $R/sys/fs/cgroup/unified
mount -t cgroup -o none,name=systemd,xattr cgroup $R/sys/fs/cgroup/systemd
mount -t cgroup2 cgroup2 $R/sys/fs/cgroup/unified
for c in {controllers}; do mkdir $R/sys/fs/cgroup/$c; mount -t cgroup -o $c cgroup $R/sys/fs/cgroup/$c; done
mount -t tmpfs tmpfs $R/dev -o mode=755
for d in null zero full random urandom tty; do touch $R/dev/$d; mount --bind /dev/$d $R/dev/$d; done
mkdir $R/dev/pts $R/dev/shm
mount -t devpts devpts $R/dev/pts -o newinstance,ptmxmode=0666,mode=620,gid=5; ln -s pts/ptmx $R/dev/ptmx
mount -t tmpfs tmpfs $R/dev/shm; mount -t tmpfs tmpfs $R/run -o mode=755
mkdir -p $R/share; mount --bind {share} $R/share
for b in {binds}; do mkdir -p $R/${{b#*:}}; mount --bind ${{b%%:*}} $R/${{b#*:}}; done
{more}
cd $R; mkdir -p .old; pivot_root . .old; umount -l /.old
mount --make-rshared /
mkdir -p /etc/tmpfiles.d /run/systemd/system; ln -sf /dev/null /etc/tmpfiles.d/tmp.conf
rm -rf /etc/systemd/logind.conf.d
cp /share/units/* /run/systemd/system/
exec env -i container=fairlead PATH={path} {systemd} --log-target=console --unit=machine.target
"""
_TARGET = """[Unit]
Requires=basic.target dbus.socket
Wants=systemd-logind.service dbus.service
After=basic.target
AllowIsolate=yes
"""


class Machine:
    """One machine. `boot` starts it, again after it went down."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.runs_containers = False
        self.binds: dict[pathlib.Path, str] = {}  # folders of the host that are seen inside, and where
        self.share = folder / "share"
        self._mnt = folder / "mnt"
        self._name = f"fairlead-{folder.name}"
        self._process: subprocess.Popen[bytes] | None = None
        self._boots = 0
        (self.share / "units").mkdir(parents=True)
        self._mnt.mkdir()
        self.unit("machine.target", _TARGET)

    @property
    def _hierarchies(self) -> tuple[str, ...]:
        return (*_HIERARCHIES, *(_CONTROLLERS if self.runs_containers else ()))

    def more(self) -> str:
        """What a special machine does at boot beside, as lines of its script; `$R` is its root."""
        return ":"

    def unit(self, name: str, text: str) -> None:
        """A unit that is there from the next boot on."""
        (self.share / "units" / name).write_text(text)

    def boot(self) -> None:
        self._boots += 1
        boot_id = self.folder / f"boot-{self._boots}"
        boot_id.write_text(f"{self._boots:08d}-0000-4000-8000-000000000000\n")
        script = self.folder / "boot.sh"
        script.write_text(
            _BOOT.format(
                mnt=self._mnt,
                share=self.share,
                boot_id=boot_id,
                path=_PATH,
                systemd=_SYSTEMD,
                controllers=" ".join(self._hierarchies[len(_HIERARCHIES) :]),
                binds=" ".join(f"{outside}:{inside}" for outside, inside in self.binds.items()),
                more=self.more(),
            )
        )
        for hierarchy in self._hierarchies:
            (_CGROUPS / hierarchy / self._name).mkdir(exist_ok=True)
        if self.runs_containers:
            for setting in ("cpuset.cpus", "cpuset.mems"):  # a new set is empty, and nothing can enter it
                inherited = (_CGROUPS / "cpuset" / setting).read_text()
                (_CGROUPS / "cpuset" / self._name / setting).write_text(inherited)
            (_CGROUPS / "cpuset" / self._name / "cgroup.clone_children").write_text("1")
        procs = [str(_CGROUPS / hierarchy / self._name / "cgroup.procs") for hierarchy in self._hierarchies]
        enter = "; ".join(f"echo $$ > {path}" for path in procs)
        # The network is the host's: the API server listens on its loopback, and nothing inside configures a network.
        command = (
            f"{enter}; exec unshare --pid --mount --uts --ipc --cgroup --fork --kill-child --propagation private "
            f"bash {script}"
        )
        with (self.folder / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                ["bash", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        ask = ["busctl", "--timeout=5", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1"]
        ask += ["org.freedesktop.login1.Manager", "PreparingForShutdown"]
        until(lambda: self.is_nested and self.run(*ask, check=False).returncode == 0, "the machine boots", self.console)

    def console(self) -> str:
        """The last words of the machine and of its agent."""
        logs = [self.folder / "console.log", *sorted(self.share.glob("*.log"))]
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}" for log in logs if log.exists())

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_nested(self) -> bool:
        """Whether there is a PID 1 of a namespace inside ours; only such a one is ever told to go down."""
        return self._leader() is not None

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command inside."""
        leader = self._leader()
        if leader is None:
            raise AssertionError(f"the machine is not up\n{self.console()}")
        inside = ["nsenter", "-t", str(leader), "-m", "-u", "-i", "-p", "-C", "--"]
        environment = ["/usr/bin/env", "-i", f"PATH={_PATH}", "TERM=dumb"]
        return subprocess.run([*inside, *environment, *command], check=check, capture_output=True, text=True)

    def wait_off(self, timeout_seconds: float = 120) -> None:
        until(lambda: not self.is_up, "the machine goes down", self.console, timeout_seconds)

    def destroy(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()  # --kill-child: PID 1 inside goes with it, and everything else with that
        if self._process is not None:
            self._process.wait()
        # The last processes inside are killed with their PID 1, but take a moment to be gone.
        with contextlib.suppress(AssertionError):
            until(lambda: all(map(self._is_removed, self._hierarchies)), "its groups are removed", timeout_seconds=10)

    def _is_removed(self, hierarchy: str) -> bool:
        base = _CGROUPS / hierarchy / self._name
        for path, _, _ in os.walk(base, topdown=False) if base.exists() else ():
            with contextlib.suppress(OSError):
                pathlib.Path(path).rmdir()
        return not base.exists()

    def _leader(self) -> int | None:
        if self._process is None or self._process.poll() is not None:
            return None
        children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in map(int, children):
            with contextlib.suppress(OSError):
                status = pathlib.Path(f"/proc/{child}/status").read_text()
                (line,) = [line for line in status.splitlines() if line.startswith("NSpid:")]
                if line.split()[2:] == ["1"]:
                    return child
        return None


def until(
    holds: Callable[[], object],
    what: str,
    last_words: Callable[[], str] = lambda: "",
    timeout_seconds: float = 120,
) -> None:
    """Wait for another process's doing, which has no event to wait for."""
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not after {timeout_seconds:g} s\n{last_words()}")
        time.sleep(0.02)


@contextlib.contextmanager
def a_machine(folder: pathlib.Path) -> Iterator[Machine]:
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    missing += [str(path) for path in (_SYSTEMD, _LOGIND) if not path.exists()]
    remedy = "on Debian: apt-get install systemd dbus libpam-systemd"
    require_real("systemd with logind", present=not missing, remedy=f"{shlex.join(missing)} not found; {remedy}")
    able = os.geteuid() == 0 and all((_CGROUPS / name).is_dir() for name in _HIERARCHIES)
    require_real("a machine in namespaces", present=able, remedy="it needs root and systemd's hybrid cgroup hierarchy")
    machine = Machine(folder)
    try:
        yield machine
    finally:
        machine.destroy()
