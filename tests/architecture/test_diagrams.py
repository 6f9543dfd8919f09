"""Diagrams name modules that exist."""

from __future__ import annotations

import re

from tests.architecture.source import ROOT, fairlead_modules
from tests.architecture.test_pages import pages

BLOCK = re.compile(r"^```mermaid\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODULE = re.compile(r"\bkube_fairlead\w*(?:\.\w+)*")


def unknown_modules(text: str) -> list[str]:
    known = {source.name for source in fairlead_modules()}
    named = {name for block in BLOCK.findall(text) for name in MODULE.findall(block)}
    return sorted(named - known)


def test_diagrams_name_modules_that_exist() -> None:
    assert {str(page): found for page in pages() if (found := unknown_modules(page.read_text(encoding="utf-8")))} == {}


def test_the_architecture_is_drawn() -> None:
    components, journey = BLOCK.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert components.startswith("flowchart")
    assert journey.startswith("sequenceDiagram")
    assert len(MODULE.findall(components)) >= 8
    assert len(MODULE.findall(journey)) >= 5


def test_a_module_that_is_not_there_is_found() -> None:
    assert unknown_modules("```mermaid\nflowchart LR\n  a[kube_fairlead.nothing]\n```") == ["kube_fairlead.nothing"]
    assert unknown_modules('```mermaid\nflowchart LR\n  a["kube_fairlead.agent"]\n```\nkube_fairlead.nothing') == []
