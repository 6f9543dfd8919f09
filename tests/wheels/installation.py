"""Wheels of the three distributions, and empty environments to install them in, outside the repository."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

from kube_fairlead_lab.testing import require_real

__all__ = ["MAX_MEGABYTES", "MAX_PACKAGES", "Installation", "build_wheels", "find_interpreter"]

# What the product may bring beside itself.
MAX_PACKAGES = 22
MAX_MEGABYTES = 30

ROOT = pathlib.Path(__file__).parents[2]
_UV = str(pathlib.Path(sys.executable).with_name("uv"))
_DISTRIBUTIONS = ("kube-fairlead", "kube-fairlead-apiserver", "kube-fairlead-lab")


def build_wheels(folder: pathlib.Path) -> pathlib.Path:
    """Build the wheel of each distribution from its own sdist, as a release does."""
    for name in _DISTRIBUTIONS:
        _run([_UV, "build", "-q", "--out-dir", str(folder), str(ROOT / "packages" / name)])
    return folder


def find_interpreter(version: str) -> str:
    """A Python of this version: this process's own, one on the path, or one of Debian's that is fetched."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    for path in _candidates(version):
        asked = subprocess.run([path, "-c", "import sqlite3, ssl"], capture_output=True, check=False)
        if asked.returncode == 0:
            return path
    fetched = subprocess.run([ROOT / "hack/pythons/fetch.sh", version], capture_output=True, text=True, check=False)
    require_real(f"Python {version}", present=fetched.returncode == 0, remedy=fetched.stderr.strip() or "install it")
    return fetched.stdout.strip()


def _candidates(version: str) -> list[str]:
    named = shutil.which(f"python{version}")
    roots = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    return [*([named] if named else []), *map(str, roots)]


class Installation:
    """An environment with what is installed into it, and nothing else."""

    def __init__(self, folder: pathlib.Path, interpreter: str, wheels: pathlib.Path) -> None:
        self.folder = folder
        self._wheels = wheels
        _run([_UV, "venv", "-q", "--python", interpreter, str(folder / "venv")])
        self.bin = folder / "venv" / "bin"

    def install(self, *requirements: str) -> None:
        """Install from the wheels; what they depend on, as the lock file pins it."""
        _run(
            [
                *(_UV, "pip", "install", "-q", "--python", str(self.bin / "python"), "--prerelease=allow"),
                *("--find-links", str(self._wheels), "--constraint", str(ROOT / "requirements-dev.lock")),
                *requirements,
            ]
        )

    def run(self, *command: str, **options: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, in a folder of its own, with no variable that could lead elsewhere."""
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8", **options}
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def packages(self) -> dict[str, int]:
        """What is installed: the name of each distribution, and the bytes of its files without bytecode."""
        program = (
            "import importlib.metadata as m, os, sys\n"
            "for one in m.distributions():\n"
            "    sizes = [os.path.getsize(f.locate()) for f in one.files or () if f.suffix != '.pyc']\n"
            "    print(one.name, sum(sizes))\n"
        )
        done = self.run("python", "-c", program)
        assert done.returncode == 0, done.stderr
        return {name: int(size) for name, size in (line.split() for line in done.stdout.splitlines())}


def _run(command: list[str]) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
