"""The code base as data: every module parsed once, for the rules in this folder to read."""

from __future__ import annotations

import ast
import dataclasses
import functools
import io
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

__all__ = [
    "DISTRIBUTIONS",
    "ROOT",
    "Source",
    "assert_clean",
    "dotted_names",
    "every_file",
    "fairlead_modules",
    "modules_of",
    "snippet",
]

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = ("kube_fairlead", "kube_fairlead_apiserver", "kube_fairlead_lab")


@dataclasses.dataclass(frozen=True)
class Source:
    """One Python file."""

    name: str  # kube_fairlead.base.clock
    path: str  # relative to the repository
    text: str = dataclasses.field(repr=False)
    is_package: bool = False

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def package(self) -> str:
        """`base` for kube_fairlead.base.clock, empty for kube_fairlead itself."""
        return [*self.name.split("."), ""][1]

    def comments(self) -> Iterator[tuple[int, str]]:
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string

    def finding(self, line: int, what: str) -> str:
        return f"{self.path}:{line} {what}"


def snippet(text: str, name: str = "kube_fairlead.agent.probe", *, is_package: bool = False) -> Source:
    """A module that exists only to show that a rule bites."""
    return Source(name=name, path=f"{name}.py", text=text, is_package=is_package)


@functools.cache
def modules_of(distribution: str) -> tuple[Source, ...]:
    """Every module of one distribution, named by its import name."""
    source = ROOT / "packages" / distribution.replace("_", "-") / "src"
    return tuple(_load(path, source) for path in sorted((source / distribution).rglob("*.py")))


@functools.cache
def fairlead_modules() -> tuple[Source, ...]:
    """Every module of the three distributions."""
    return tuple(module for name in DISTRIBUTIONS for module in modules_of(name))


@functools.cache
def every_file() -> tuple[Source, ...]:
    """Every Python file that people maintain here: the distributions, their tests, benchmarks and scripts."""
    folders = [ROOT / name for name in ("tests", "bench", "hack", "examples")] + sorted(ROOT.glob("packages/*/tests"))
    others = [path for folder in folders for path in sorted(folder.rglob("*.py")) if "testdata" not in path.parts]
    return fairlead_modules() + tuple(_load(path, ROOT) for path in others)


def _load(path: Path, base: Path) -> Source:
    parts = path.relative_to(base).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    return Source(
        name=".".join(parts[:-1] if is_package else parts),
        path=str(path.relative_to(ROOT)),
        text=path.read_text(encoding="utf-8"),
        is_package=is_package,
    )


def assert_clean(sources: Iterable[Source], rule: Callable[[Source], list[str]]) -> None:
    """Fail with every place where the rule is broken, one per line."""
    findings = [finding for source in sources for finding in rule(source)]
    assert not findings, "\n".join([f"{len(findings)} found by {rule.__name__}:", *findings])


def dotted_names(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Every name and attribute in the code with the full name it stands for, seen through imports and aliases.

    With `from datetime import datetime as moment`, the code `moment.now` is `datetime.datetime.now`.
    """
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                aliases[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := _dotted(node, aliases)):
            yield node, name


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return aliases.get(node.id, "")
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value, aliases)):
        return f"{before}.{node.attr}"
    return ""
