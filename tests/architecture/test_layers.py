"""Imports point downward only, and packages on one line never import each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import ROOT, Source, assert_clean, fairlead_modules, snippet

# The one table in code; ARCHITECTURE.md shows the same to people. From the top down.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("dashboard", "sim", "testing"),
    ("doctor",),
    ("agent", "apiserver", "controllers", "cloud", "drivers", "hollow", "webhook"),
    ("claimant",),
    ("manager", "driverapi", "grace"),
    ("election",),
    ("client",),
    ("lifecycle",),
    ("api",),
    ("base",),
)
RANK = {package: rank for rank, line in enumerate(reversed(LAYERS)) for package in line}

# Libraries that only the embedded API server needs: the agent and the managers must not pay for them.
SERVER_LIBRARIES = frozenset({"apsw", "cryptography", "httptools", "re2", "uvloop"})
# Making a certificate is for every component that serves; the library is loaded when one is made, and only there.
MAKES_CERTIFICATES = "fairlead.base.certificates"
# Libraries that cost so much to import that a module may only load them when it needs them.
LAZY_LIBRARIES = frozenset({"prometheus_client", "rich"})


def imported(source: Source) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, by full name, wherever in the file."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = source.name.split(".")
                above = parts[: len(parts) - node.level + source.is_package]
                base = ".".join([*above, base] if base else above)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute | ast.Name)
            and ast.unparse(node.func).rpartition(".")[2] in {"import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def upward_imports(source: Source) -> list[str]:
    findings = []
    if source.package and source.package not in RANK:
        findings.append(source.finding(1, f"package {source.package} is not in the layer table"))
        return findings
    for line, module in imported(source):
        if not module.startswith("fairlead."):
            continue
        package = module.split(".")[1]
        if package not in RANK or package == source.package:
            continue
        if not source.package or RANK[package] >= RANK[source.package]:
            findings.append(source.finding(line, f"{source.package or 'fairlead'} imports {package}"))
    return findings


def misplaced_libraries(source: Source) -> list[str]:
    if source.package in {"apiserver", ""} or RANK.get(source.package, 0) > RANK["apiserver"]:
        return []
    return [
        source.finding(line, f"{module.split('.')[0]} is for the API server only")
        for line, module in imported(source)
        if module.split(".")[0] in SERVER_LIBRARIES - _allowed(source, line)
    ]


def _allowed(source: Source, line: int) -> set[str]:
    eager = [node.lineno for node in source.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return {"cryptography"} if source.name == MAKES_CERTIFICATES and line not in eager else set()


def eager_libraries(source: Source) -> list[str]:
    return [
        source.finding(node.lineno, f"{name} is heavy: import it where it is used")
        for node in source.tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name.split(".")[0] for alias in node.names]
            if isinstance(node, ast.Import)
            else [(node.module or "").split(".")[0]]
        )
        if name in LAZY_LIBRARIES
    ]


def test_imports_point_downward() -> None:
    assert_clean(fairlead_modules(), upward_imports)


def test_server_libraries_stay_in_the_server() -> None:
    assert_clean(fairlead_modules(), misplaced_libraries)


def test_heavy_libraries_are_loaded_late() -> None:
    assert_clean(fairlead_modules(), eager_libraries)


def test_architecture_page_shows_the_same_table() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("## Layers")[2].partition("\n## ")[0]
    lines = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    assert tuple(tuple(name.strip() for name in line.split("|")) for line in lines) == LAYERS


def test_architecture_page_tours_every_package() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tour = page.partition("## Tour")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", tour, re.MULTILINE)) == sorted(RANK)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fairlead.api.x", "from fairlead.client import requests"),
        ("fairlead.api.x", "import fairlead.client.requests"),
        ("fairlead.api.x", "from fairlead import client"),
        ("fairlead.api.x", "from ..client import requests"),
        ("fairlead.api.x", "from .. import client"),
        ("fairlead.agent.x", "from fairlead.apiserver import routing"),
        ("fairlead.agent.x", "def f():\n    from fairlead.apiserver import routing"),
        ("fairlead.agent.x", "import importlib\nimportlib.import_module('fairlead.cloud.ownership')"),
        ("fairlead.agent.shutdown.x", "from ...drivers import drain"),
        ("fairlead.surprise.x", ""),
        ("fairlead", "from fairlead.base import clock"),
    ],
)
def test_it_bites(name: str, text: str) -> None:
    assert upward_imports(snippet(text, name))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fairlead.agent.x", "from fairlead.base import clock\nfrom fairlead.client import watch\nimport asyncio"),
        ("fairlead.agent.x", "from fairlead.agent import claims\nfrom . import claims"),
        ("fairlead.agent.shutdown.x", "from .. import claims"),
        ("fairlead.agent.x", "from fairlead import __version__"),
        ("fairlead.cli.x", "from fairlead.sim import world"),
    ],
)
def test_it_lets_pass(name: str, text: str) -> None:
    assert upward_imports(snippet(text, name)) == []


def test_a_package_resolves_its_own_relative_imports() -> None:
    assert upward_imports(snippet("from .claims import x", "fairlead.agent", is_package=True)) == []
    assert upward_imports(snippet("from ..cli import x", "fairlead.agent", is_package=True))


@pytest.mark.parametrize("text", ["import apsw", "from cryptography import x509", "def f():\n    import re2"])
def test_server_library_rule_bites(text: str) -> None:
    assert misplaced_libraries(snippet(text, "fairlead.agent.x"))
    assert misplaced_libraries(snippet(text, "fairlead.client.x"))
    assert misplaced_libraries(snippet(text, "fairlead.apiserver.x")) == []


def test_certificates_are_made_in_one_place_and_their_library_is_loaded_late() -> None:
    lazy = "def f():\n    from cryptography import x509"
    assert misplaced_libraries(snippet(lazy, MAKES_CERTIFICATES)) == []
    assert misplaced_libraries(snippet("from cryptography import x509", MAKES_CERTIFICATES))
    assert misplaced_libraries(snippet("def f():\n    import apsw", MAKES_CERTIFICATES))
    assert misplaced_libraries(snippet(lazy, "fairlead.base.x"))


def test_lazy_library_rule_bites() -> None:
    assert eager_libraries(snippet("import prometheus_client"))
    assert eager_libraries(snippet("from rich.table import Table"))
    assert eager_libraries(snippet("def f():\n    from rich.table import Table")) == []
