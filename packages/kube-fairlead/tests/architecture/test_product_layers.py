"""Imports point downward only, and packages on one line never import each other."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.imports import imported
from tests.architecture.source import ROOT, Source, assert_clean, modules_of, snippet

# The one table in code; ARCHITECTURE.md shows the same to people. From the top down.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("install", "operations", "overview", "doctor"),
    ("agent", "controllers", "cloud", "drivers", "webhook"),
    ("claimant",),
    ("manager", "driverapi", "grace"),
    ("election",),
    ("client",),
    ("lifecycle",),
    ("api",),
    ("base",),
)
RANK = {package: rank for rank, line in enumerate(reversed(LAYERS)) for package in line}

# Their commands arrive by entry point.
OTHERS = frozenset({"kube_fairlead_apiserver", "kube_fairlead_lab"})

# Libraries that only the embedded API server needs: the agent and the managers must not pay for them.
SERVER_LIBRARIES = frozenset({"apsw", "cryptography", "httptools", "re2", "uvloop"})
# Making a certificate is for every component that serves; the library is loaded when one is made, and only there.
MAKES_CERTIFICATES = "kube_fairlead.base.certificates"
# Libraries that cost so much to import that a module may only load them when it needs them.
LAZY_LIBRARIES = frozenset({"rich"})
# Independent implementations that tests hold ours against: a distribution that imported one would not say so.
ORACLES = frozenset({"grpclib", "prometheus_client"})
# The driver protocol is for those who call drivers or are some. Others share only `base.rpc` with it.
WITHOUT_DRIVERS = ("kube_fairlead.agent.shutdown", "kube_fairlead.cloud")

# What a dashboard, a controller or a user's own program uses too: only the command line has a terminal and signals.
WITHOUT_TERMINAL = frozenset({"install", "operations", "overview"})
TERMINAL_LIBRARIES = frozenset({"click", "curses", "getpass", "readline", "rich", "signal", "termios", "tty"})
TERMINAL_CALLS = frozenset({"breakpoint", "exit", "input", "print", "quit"})
TERMINAL_NAMES = frozenset({"os._exit", "os.kill", "sys.argv", "sys.exit", "sys.stderr", "sys.stdin", "sys.stdout"})


def upward_imports(source: Source) -> list[str]:
    findings = []
    if source.package and source.package not in RANK:
        findings.append(source.finding(1, f"package {source.package} is not in the layer table"))
        return findings
    for line, module in imported(source):
        distribution, _, inner = module.partition(".")
        if distribution in OTHERS:
            findings.append(source.finding(line, f"the product imports {distribution}"))
        package = inner.partition(".")[0]
        if distribution != "kube_fairlead" or package not in RANK or package == source.package:
            continue
        if not source.package or RANK[package] >= RANK[source.package]:
            findings.append(source.finding(line, f"{source.package or 'kube_fairlead'} imports {package}"))
    return findings


def misplaced_libraries(source: Source) -> list[str]:
    return [
        source.finding(line, f"{module.split('.')[0]} is a library of the API server")
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


def imported_oracles(source: Source) -> list[str]:
    return [
        source.finding(line, f"{module.split('.')[0]} is a library of tests")
        for line, module in imported(source)
        if module.split(".")[0] in ORACLES
    ]


def borrowed_driver_protocol(source: Source) -> list[str]:
    if not f"{source.name}.".startswith(tuple(f"{one}." for one in WITHOUT_DRIVERS)):
        return []
    return [
        source.finding(line, "the driver protocol is for drivers; what is common is in base.rpc")
        for line, module in imported(source)
        if module.startswith("kube_fairlead.driverapi")
    ]


@pytest.mark.parametrize("distribution", ["kube_fairlead", *sorted(OTHERS)])
def test_oracles_stay_in_tests(distribution: str) -> None:
    assert_clean(modules_of(distribution), imported_oracles)


def test_the_driver_protocol_is_for_drivers() -> None:
    assert_clean(modules_of("kube_fairlead"), borrowed_driver_protocol)


@pytest.mark.parametrize("text", ["import grpclib", "def f():\n    from grpclib.server import Server"])
def test_oracle_rule_bites(text: str) -> None:
    assert imported_oracles(snippet(text, "kube_fairlead.driverapi.x"))


@pytest.mark.parametrize("name", ["kube_fairlead.agent.shutdown.cri.x", "kube_fairlead.cloud.x"])
def test_driver_protocol_rule_bites(name: str) -> None:
    assert borrowed_driver_protocol(snippet("from kube_fairlead.driverapi import errors", name))
    assert borrowed_driver_protocol(snippet("from kube_fairlead import driverapi", name))
    assert borrowed_driver_protocol(snippet("from kube_fairlead.base.rpc import client", name)) == []
    assert borrowed_driver_protocol(snippet("from kube_fairlead.driverapi import x", "kube_fairlead.agent.agent")) == []


def terminal_uses(source: Source) -> list[str]:
    if source.package not in WITHOUT_TERMINAL:
        return []
    found = [(line, module) for line, module in imported(source) if module.partition(".")[0] in TERMINAL_LIBRARIES]
    found += [(line, module) for line, module in imported(source) if module in TERMINAL_NAMES]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in TERMINAL_NAMES:
            found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Name) and node.id in TERMINAL_CALLS:
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in {"SystemExit", "KeyboardInterrupt"}:
            found.append((node.lineno, ast.unparse(node)))
    return [
        source.finding(line, f"{source.package} uses {what}, which is for the command line") for line, what in found
    ]


def test_what_the_command_line_shares_with_other_programs_uses_no_terminal() -> None:
    assert_clean(modules_of("kube_fairlead"), terminal_uses)


@pytest.mark.parametrize(
    "text",
    [
        "import click",
        "from rich.table import Table",
        "def f():\n    from rich import live",
        "import signal",
        "print('drained')",
        "report = print",
        "input()",
        "import sys\nsys.stdout.write('x')",
        "from sys import stderr",
        "import sys\nsys.exit(1)",
        "raise SystemExit(1)",
        "import os\nos.kill(1, 9)",
    ],
)
def test_terminal_rule_bites(text: str) -> None:
    for package in sorted(WITHOUT_TERMINAL):
        assert terminal_uses(snippet(text, f"kube_fairlead.{package}.x"))
    assert terminal_uses(snippet(text, "kube_fairlead.cli.x")) == []


def test_terminal_rule_lets_values_and_callbacks_pass() -> None:
    text = "import sys\nimport os\nsys.platform\nos.getpid()\ndef f(report):\n    report('drained')"
    assert terminal_uses(snippet(text, "kube_fairlead.operations.x")) == []


def test_imports_point_downward() -> None:
    assert_clean(modules_of("kube_fairlead"), upward_imports)


def test_server_libraries_stay_in_the_server() -> None:
    assert_clean(modules_of("kube_fairlead"), misplaced_libraries)


def test_heavy_libraries_are_loaded_late() -> None:
    assert_clean(modules_of("kube_fairlead"), eager_libraries)


def test_architecture_page_shows_the_same_table() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("## Layers")[2].partition("\n##")[0]
    lines = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    assert tuple(tuple(name.strip() for name in line.split("|")) for line in lines) == LAYERS


def test_architecture_page_tours_every_package() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tour = page.partition("## Tour")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", tour, re.MULTILINE)) == sorted(RANK)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kube_fairlead.api.x", "from kube_fairlead.client import requests"),
        ("kube_fairlead.api.x", "import kube_fairlead.client.requests"),
        ("kube_fairlead.api.x", "from kube_fairlead import client"),
        ("kube_fairlead.api.x", "from ..client import requests"),
        ("kube_fairlead.api.x", "from .. import client"),
        ("kube_fairlead.agent.x", "from kube_fairlead_apiserver import routing"),
        ("kube_fairlead.cli.x", "import kube_fairlead_lab.sim"),
        ("kube_fairlead.agent.x", "def f():\n    from kube_fairlead_apiserver import routing"),
        ("kube_fairlead.agent.x", "import importlib\nimportlib.import_module('kube_fairlead.cloud.ownership')"),
        ("kube_fairlead.agent.shutdown.x", "from ...drivers import drain"),
        ("kube_fairlead.surprise.x", ""),
        ("kube_fairlead.operations.x", "from kube_fairlead.cli import shared_flags"),
        ("kube_fairlead.install.x", "from kube_fairlead.operations import drain"),
        ("kube_fairlead.agent.x", "from kube_fairlead.overview import read_history"),
        ("kube_fairlead", "from kube_fairlead.base import clock"),
    ],
)
def test_it_bites(name: str, text: str) -> None:
    assert upward_imports(snippet(text, name))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "kube_fairlead.agent.x",
            "from kube_fairlead.base import clock\nfrom kube_fairlead.client import watch\nimport asyncio",
        ),
        ("kube_fairlead.agent.x", "from kube_fairlead.agent import claims\nfrom . import claims"),
        ("kube_fairlead.agent.shutdown.x", "from .. import claims"),
        ("kube_fairlead.agent.x", "from fairlead import __version__"),
        ("kube_fairlead.cli.x", "from kube_fairlead.agent import claims"),
    ],
)
def test_it_lets_pass(name: str, text: str) -> None:
    assert upward_imports(snippet(text, name)) == []


def test_a_package_resolves_its_own_relative_imports() -> None:
    assert upward_imports(snippet("from .claims import x", "kube_fairlead.agent", is_package=True)) == []
    assert upward_imports(snippet("from ..cli import x", "kube_fairlead.agent", is_package=True))


@pytest.mark.parametrize("text", ["import apsw", "from cryptography import x509", "def f():\n    import re2"])
def test_server_library_rule_bites(text: str) -> None:
    assert misplaced_libraries(snippet(text, "kube_fairlead.agent.x"))
    assert misplaced_libraries(snippet(text, "kube_fairlead.client.x"))


def test_certificates_are_made_in_one_place_and_their_library_is_loaded_late() -> None:
    lazy = "def f():\n    from cryptography import x509"
    assert misplaced_libraries(snippet(lazy, MAKES_CERTIFICATES)) == []
    assert misplaced_libraries(snippet("from cryptography import x509", MAKES_CERTIFICATES))
    assert misplaced_libraries(snippet("def f():\n    import apsw", MAKES_CERTIFICATES))
    assert misplaced_libraries(snippet(lazy, "kube_fairlead.base.x"))


def test_lazy_library_rule_bites() -> None:
    assert eager_libraries(snippet("import rich"))
    assert eager_libraries(snippet("from rich.table import Table"))
    assert eager_libraries(snippet("def f():\n    from rich.table import Table")) == []
