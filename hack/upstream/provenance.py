"""Which upstream files a module follows, read from its docstring.

A module that mirrors Kubernetes ends its docstring with one paragraph:

    Upstream: k8s.io/apiserver@v0.36.4/pkg/registry/rest/delete.go,
        k8s.io/kubernetes@v1.36.4/pkg/registry/core/pod/strategy.go

One file per line, as Go's module cache spells it: module, version at which the file was read, path in the module. A
comma ends every line but the last, and every line but the first is indented by four spaces.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["PINS", "ROOT", "Malformed", "Named", "PythonModule", "modules", "pinned_minors", "pinned_versions", "read"]

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "hack" / "kube"

_START = "Upstream:"
_FILE = re.compile(
    r"(?P<module>[a-z0-9.-]+\.[a-z]+(?:/[\w.-]+)*)@(?P<version>v\d[\w.+-]*)/(?P<path>(?:[\w.-]+/)*[\w.-]+\.\w+)"
)
_REQUIRED = re.compile(r"^(?:require\s+|\t)(\S+\.\S+) (v\S+)", re.MULTILINE)
_REPLACED = re.compile(r"^(?:replace\s+|\t)(\S+)(?: v\S+)? => \S+ (v\S+)", re.MULTILINE)


class Malformed(ValueError):
    """A docstring mentions upstream files in another form than the fixed one."""


@dataclasses.dataclass(frozen=True, order=True)
class Named:
    """One upstream file, and the version at which it was read."""

    module: str  # k8s.io/apiserver
    version: str  # v0.36.4
    path: str  # pkg/registry/rest/delete.go

    def __str__(self) -> str:
        return f"{self.module}@{self.version}/{self.path}"


@dataclasses.dataclass(frozen=True, order=True)
class PythonModule:
    """One of our modules, and the upstream files that it follows."""

    name: str
    files: tuple[Named, ...]


def read(docstring: str) -> tuple[Named, ...]:
    """The upstream files that a docstring names; none when it names none. Raises Malformed.

    `docstring` is cleaned, as `ast.get_docstring` gives it.
    """
    lines = docstring.splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip().lower().startswith(_START.lower())]
    if not starts:
        return ()
    first = starts[0]
    if len(starts) > 1:
        raise Malformed("has more than one Upstream paragraph")
    if first == 0 or lines[first - 1]:
        raise Malformed("needs an empty line before Upstream")
    if not lines[first].startswith(f"{_START} "):
        raise Malformed(f"must begin with {_START!r} and a space, not indented")
    rows = [lines[first].removeprefix(f"{_START} "), *lines[first + 1 :]]
    named = []
    for number, row in enumerate(rows):
        if number and not (row.startswith("    ") and row[4:5].strip()):
            raise Malformed(f"must be the last paragraph, one file per line, indented by four spaces: {row!r}")
        text = row.removeprefix("    ") if number else row
        if (number < len(rows) - 1) != text.endswith(","):
            raise Malformed(f"needs a comma after every file but the last: {row!r}")
        match = _FILE.fullmatch(text.removesuffix(","))
        if match is None:
            raise Malformed(f"is not MODULE@VERSION/PATH: {row!r}")
        named.append(Named(match["module"], match["version"], match["path"]))
    if len(set(named)) != len(named):
        raise Malformed("names a file twice")
    return tuple(named)


def modules(root: Path = ROOT) -> Iterator[PythonModule]:
    """Every module of the distributions that follows upstream files, by name."""
    found = []
    for source in root.glob("packages/*/src"):
        for path in source.rglob("*.py"):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            if files := read(docstring):
                parts = path.relative_to(source).with_suffix("").parts
                found.append(PythonModule(".".join(part for part in parts if part != "__init__"), files))
    yield from sorted(found)


def pinned_minors(pins: Path = PINS) -> list[str]:
    """The minor versions of Kubernetes that hack/kube pins, oldest first."""
    return sorted((path.parent.name for path in pins.glob("*/go.mod")), key=lambda minor: [*map(int, minor.split("."))])


@functools.cache
def pinned_versions(minor: str, pins: Path = PINS) -> Mapping[str, str]:
    """The version of every Go module that a pinned Kubernetes is built from."""
    text = (pins / minor / "go.mod").read_text(encoding="utf-8")
    required = text.partition("\nreplace")[0]
    return dict(_REQUIRED.findall(required)) | dict(_REPLACED.findall(text))
