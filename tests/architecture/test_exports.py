"""`__all__` is sorted, and says exactly which names a module offers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.source import Source, assert_clean, fairlead_modules, snippet

TYPE_VARIABLES = frozenset({"ParamSpec", "TypeVar", "TypeVarTuple"})


def export_faults(source: Source) -> list[str]:
    if source.name.endswith(".__main__"):
        return []
    defined = {name for name in _defined(source.tree.body) if not name.startswith("_")}
    defined -= set(_reading_aids(source.tree))
    listed = _listed(source.tree)
    if listed is None:
        return [source.finding(1, "has public names and no __all__")] if defined else []
    names, line = listed
    findings = [source.finding(line, f"__all__ lacks {name}") for name in sorted(defined - set(names))]
    # A package may offer what its modules define; a module offers what it defines itself.
    offered = set(_defined(source.tree.body)) | (_imported(source.tree) if source.is_package else set())
    findings += [
        source.finding(line, f"__all__ names {name}, which is not here") for name in names if name not in offered
    ]
    if len(names) != len(set(names)):
        findings.append(source.finding(line, "__all__ names something twice"))
    if names != sorted(names, key=_order):
        findings.append(source.finding(line, f"__all__ is not sorted: {sorted(names, key=_order)}"))
    return findings


def _order(name: str) -> tuple[int, list[tuple[int, str | int]]]:
    # Constants, then classes, then the rest; digits count as numbers. The linter sorts the same way.
    group = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    pieces: list[tuple[int, str | int]] = [
        (0, int(piece)) if piece.isdigit() else (1, piece) for piece in re.findall(r"\d+|\D+", name)
    ]
    return group, pieces


def _reading_aids(tree: ast.Module) -> Iterator[str]:
    """Type variables and aliases of types: a module may keep them to itself without an underscore."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        called = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
        is_alias = isinstance(value, ast.Subscript | ast.BinOp) and name[0].isupper() and not name.isupper()
        if is_alias or called in TYPE_VARIABLES:
            yield name


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Assign():
                for target in node.targets:
                    yield from (inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If() | ast.Try():
                branches = [node.body, node.orelse]
                if isinstance(node, ast.Try):
                    branches += [node.finalbody, *(handler.body for handler in node.handlers)]
                for branch in branches:
                    yield from _defined(branch)
            case _:
                pass


def _imported(tree: ast.Module) -> set[str]:
    # Also below `if TYPE_CHECKING`, where a package names what it loads only when it is asked for.
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def _listed(tree: ast.Module) -> tuple[list[str], int] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return list(ast.literal_eval(node.value)), node.lineno
    return None


def test_exports_are_complete_and_sorted() -> None:
    assert_clean(fairlead_modules(), export_faults)


@pytest.mark.parametrize(
    "text",
    [
        "def f(): pass",
        "__all__ = []\ndef f(): pass",
        "__all__ = []\nLIMIT = 3",
        "__all__ = []\nLIMIT: int = 3",
        "__all__ = []\nLIMIT = 3 * 7",
        "__all__ = []\nFirst = make()",
        "__all__ = []\nA, B = 1, 2",
        "__all__ = []\ntry:\n    x = 1\nexcept OSError:\n    x = 2",
        "__all__ = ['f', 'g']\ndef f(): pass",
        "__all__ = ['f', 'f']\ndef f(): pass",
        "__all__ = ['join']\nfrom os.path import join",
        "__all__ = ['g', 'f']\ndef f(): pass\ndef g(): pass",
        "__all__ = ['a', 'B']\na = 1\nclass B: pass",
    ],
)
def test_it_bites(text: str) -> None:
    assert export_faults(snippet(text))


@pytest.mark.parametrize(
    "text",
    [
        '"""Nothing."""',
        "import os\n_private = 1\ndef _f(): pass",
        "__all__ = ['LIMIT', 'B', 'a']\nLIMIT = 1\nclass B: pass\na = 2\n_c = 3",
        "__all__ = ['__version__']\n__version__ = '1'",
        "from typing import TypeVar\nT = TypeVar('T')\nJson = dict[str, object]\nKey = int | str",
        "__all__ = ['x']\nif True:\n    x = 1\nelse:\n    x = 2",
    ],
)
def test_it_lets_pass(text: str) -> None:
    assert export_faults(snippet(text)) == []


def test_a_package_may_offer_what_it_imports() -> None:
    text = "from kube_fairlead.client.requests import Request\n__all__ = ['Request']"
    assert export_faults(snippet(text, "kube_fairlead.client", is_package=True)) == []
    assert export_faults(snippet(text, "kube_fairlead.client.door"))
