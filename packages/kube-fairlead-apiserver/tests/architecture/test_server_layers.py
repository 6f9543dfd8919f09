"""The API server uses the product's lowest layers only; CEL uses nothing of the server."""

from __future__ import annotations

import re

import pytest

from tests.architecture.imports import imported
from tests.architecture.source import ROOT, Source, assert_clean, modules_of, snippet

SERVER = "kube_fairlead_apiserver"
# What the server may use of the product. The command line loads the server's command, so that command may use it, too.
ALLOWED = frozenset({"api", "base", "lifecycle"})
COMMAND = f"{SERVER}.command"
CEL = f"{SERVER}.cel"
# The one table in code; ARCHITECTURE.md shows the same to people. From the top down. Only packages have a layer.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("controllers", "openapi", "reviews", "subresources"),
    ("verbs",),
    ("operations",),
    ("admission", "printers"),
    ("flowcontrol", "observability"),
    ("registry",),
    ("crd", "security", "storage", "types"),
    ("http", "patch"),
    ("schema",),
    ("cel",),
)
RANK = {package: rank for rank, line in enumerate(reversed(LAYERS)) for package in line}
# The strategies of admission's own kinds compile what those kinds hold, when one is written.
EXCEPTIONS = frozenset({(f"{SERVER}.registry.strategies.admission", "admission")})


def upward_imports(source: Source) -> list[str]:
    if source.package not in RANK:
        is_package = source.is_package and source.package
        return [source.finding(1, f"package {source.package} is not in the layer table")] if is_package else []
    findings = []
    for line, module in imported(source):
        distribution, _, inner = module.partition(".")
        package = inner.partition(".")[0]
        if distribution != SERVER or package not in RANK or package == source.package:
            continue
        if RANK[package] >= RANK[source.package] and (source.name, package) not in EXCEPTIONS:
            findings.append(source.finding(line, f"{source.package} imports {package}"))
    return findings


def foreign_imports(source: Source) -> list[str]:
    allowed = ALLOWED | ({"cli"} if source.name == COMMAND else frozenset())
    findings = []
    for line, module in imported(source):
        distribution, _, inner = module.partition(".")
        if distribution == "kube_fairlead_lab":
            findings.append(source.finding(line, "the API server imports the lab"))
        elif distribution == "kube_fairlead" and inner.partition(".")[0] not in allowed:
            findings.append(source.finding(line, f"the API server imports {module} of the product"))
    return findings


def bound_expressions(source: Source) -> list[str]:
    """CEL could be released by itself: it imports the product's `api` and `base`, and of the server only itself."""
    if not f"{source.name}.".startswith(f"{CEL}."):
        return []
    return [
        source.finding(line, f"CEL imports {module}")
        for line, module in imported(source)
        if module.startswith(f"{SERVER}.") and not f"{module}.".startswith(f"{CEL}.")
    ]


def test_the_server_uses_the_lowest_layers_only() -> None:
    assert_clean(modules_of(SERVER), foreign_imports)


def test_imports_point_downward() -> None:
    assert_clean(modules_of(SERVER), upward_imports)


def test_every_exception_is_needed() -> None:
    used = {
        (source.name, module.split(".")[1])
        for source in modules_of(SERVER)
        for _, module in imported(source)
        if module.startswith(f"{SERVER}.")
    }
    assert used >= EXCEPTIONS


def test_architecture_page_shows_the_same_table() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("### The API server")[2].partition("\n##")[0]
    lines = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    assert tuple(tuple(name.strip() for name in line.split("|")) for line in lines) == LAYERS
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(RANK)


def test_architecture_page_names_every_module_beside_the_packages() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("#### Modules beside the packages")[2].partition("\n##")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(
        source.name.rpartition(".")[2]
        for source in modules_of(SERVER)
        if source.name.count(".") == 1 and not source.is_package
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{SERVER}.storage.x", f"from {SERVER}.operations import create"),
        (f"{SERVER}.crd.x", f"from {SERVER}.storage import store"),
        (f"{SERVER}.registry.x", f"def f():\n    from {SERVER}.admission import plugins"),
    ],
)
def test_an_upward_import_is_found(name: str, text: str) -> None:
    assert upward_imports(snippet(text, name))


def test_a_new_package_must_be_in_the_table() -> None:
    assert upward_imports(snippet("", f"{SERVER}.surprise", is_package=True))
    assert upward_imports(snippet(f"from {SERVER}.verbs import call", f"{SERVER}.server")) == []


def test_cel_uses_nothing_of_the_server() -> None:
    assert_clean(modules_of(SERVER), bound_expressions)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{SERVER}.x", "from kube_fairlead.client import watch"),
        (f"{SERVER}.x", "from kube_fairlead import client"),
        (f"{SERVER}.x", "def f():\n    import kube_fairlead.agent.agent"),
        (f"{SERVER}.x", "from kube_fairlead_lab.hollow import fleet"),
        (f"{SERVER}.x", "from kube_fairlead.cli import shared_flags"),
        (COMMAND, "from kube_fairlead.agent import launch"),
    ],
)
def test_a_foreign_import_is_found(name: str, text: str) -> None:
    assert foreign_imports(snippet(text, name))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{SERVER}.x", "from kube_fairlead.api import errors\nfrom kube_fairlead.base import clock\nimport apsw"),
        (f"{SERVER}.x", f"from {SERVER}.storage import store"),
        (COMMAND, "from kube_fairlead.cli import shared_flags"),
    ],
)
def test_an_allowed_import_passes(name: str, text: str) -> None:
    assert foreign_imports(snippet(text, name)) == []


def test_the_rule_for_cel_bites() -> None:
    assert bound_expressions(snippet(f"from {SERVER}.schema import model", f"{CEL}.values"))
    assert bound_expressions(snippet(f"from {SERVER} import regex", f"{CEL}.values"))
    assert bound_expressions(snippet(f"from {CEL} import values", f"{CEL}.checker")) == []
    assert bound_expressions(snippet(f"from {CEL} import values", f"{SERVER}.schema.model")) == []
