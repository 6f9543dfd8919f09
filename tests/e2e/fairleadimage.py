"""An image of fairlead as it is installed here: this very Python, what it depends on, and the libraries of all that."""

from __future__ import annotations

import importlib.metadata
import io
import pathlib
import re
import runpy
import subprocess
import sys
import tarfile
from collections.abc import Iterator

from packaging.requirements import Requirement

import kube_fairlead

__all__ = ["REFERENCE", "write"]

REFERENCE = "registry.local/fairlead:1"

_IMAGES = pathlib.Path(__file__).parents[2] / "hack" / "e2e" / "image.py"
_LEFT_OUT = re.compile(r"/(__pycache__|test|site-packages|idlelib|tkinter|ensurepip|config-[^/]*)(/|$)")
_PROGRAM = """#!{python}
import sys
from kube_fairlead.cli.__main__ import main
sys.exit(main())
"""


def write(out: pathlib.Path) -> None:
    """The archive, for `ctr images import`."""
    python = pathlib.Path(sys.executable).resolve()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        files = {str(python): python, **dict(_library()), **dict(_distributions())}
        for name, path in sorted({**_linked(files), **files}.items()):
            archive.add(path.resolve(), name, recursive=False)
        for folder in ("dev", "etc", "proc", "run", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        program = _PROGRAM.format(python=python).encode()
        entry = tarfile.TarInfo("usr/local/bin/fairlead")
        entry.mode, entry.size = 0o755, len(program)
        archive.addfile(entry, io.BytesIO(program))
    runpy.run_path(str(_IMAGES))["write"](out, content.getvalue(), {REFERENCE: []}, "/usr/local/bin")


def _library() -> Iterator[tuple[str, pathlib.Path]]:
    """The standard library: where it is in the image, and here."""
    base = pathlib.Path(sys.base_prefix)
    for path in (base / "lib" / f"python3.{sys.version_info.minor}").rglob("*"):
        if path.is_file() and not _LEFT_OUT.search(str(path.relative_to(base))):
            yield str(path), path


def _distributions() -> Iterator[tuple[str, pathlib.Path]]:
    """Fairlead and all that it needs: where that is in the image, and here."""
    packages = pathlib.Path(sys.base_prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    own = pathlib.Path(kube_fairlead.__file__).parent
    for path in own.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(packages / "kube_fairlead" / path.relative_to(own)), path
    for name in _needed("kube-fairlead", set(), extra="certs"):
        for file in importlib.metadata.distribution(name).files or ():
            path = pathlib.Path(str(file.locate()))
            if path.is_file() and "__pycache__" not in path.parts and ".." not in file.parts:
                yield str(packages / str(file)), path


def _needed(name: str, known: set[str], extra: str = "") -> set[str]:
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in known:
        known.add(key)
        for text in importlib.metadata.distribution(name).requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                _needed(requirement.name, known)
    return known


def _linked(files: dict[str, pathlib.Path]) -> dict[str, pathlib.Path]:
    """The libraries that those are linked with, and the loader."""
    programs = [str(path) for path in files.values() if path.suffix == ".so" or path.name.startswith("python3")]
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"(?:=> |^\s+)(/\S+) \(0x", told, flags=re.MULTILINE)
    return {path: pathlib.Path(path) for path in found if "/site-packages/" not in path}
