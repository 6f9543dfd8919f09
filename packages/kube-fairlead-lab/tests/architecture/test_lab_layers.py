"""Inside the lab imports point downward only. It may use the product and the API server."""

from __future__ import annotations

import re

import pytest

from tests.architecture.imports import imported
from tests.architecture.source import ROOT, Source, assert_clean, modules_of, snippet

LAB = "kube_fairlead_lab"
# The one table in code; ARCHITECTURE.md shows the same to people. From the top down.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("commands", "demo"),
    ("sim", "testing"),
    ("hollow",),
)
RANK = {package: rank for rank, line in enumerate(reversed(LAYERS)) for package in line}


def upward_imports(source: Source) -> list[str]:
    if source.package and source.package not in RANK:
        return [source.finding(1, f"package {source.package} is not in the layer table")]
    findings = []
    for line, module in imported(source):
        distribution, _, inner = module.partition(".")
        package = inner.partition(".")[0]
        if distribution != LAB or package not in RANK or package == source.package:
            continue
        if not source.package or RANK[package] >= RANK[source.package]:
            findings.append(source.finding(line, f"{source.package or LAB} imports {package}"))
    return findings


def test_imports_point_downward() -> None:
    assert_clean(modules_of(LAB), upward_imports)


def test_architecture_page_shows_the_same_table() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("### The lab")[2].partition("\n##")[0]
    lines = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    assert tuple(tuple(name.strip() for name in line.split("|")) for line in lines) == LAYERS
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(RANK)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{LAB}.hollow.x", f"from {LAB}.sim import network"),
        (f"{LAB}.sim.x", f"from {LAB}.testing import plugin"),
        (f"{LAB}.surprise.x", ""),
    ],
)
def test_it_bites(name: str, text: str) -> None:
    assert upward_imports(snippet(text, name))


@pytest.mark.parametrize("text", [f"from {LAB}.hollow import fleet", "from kube_fairlead_apiserver import app"])
def test_it_lets_pass(text: str) -> None:
    assert upward_imports(snippet(text, f"{LAB}.sim.x")) == []
