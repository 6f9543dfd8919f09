"""Diagrams name modules that exist."""

from __future__ import annotations

import ast
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


def drawn_steps(diagram: str) -> list[str]:
    """The answers of `decide` in the drawing of one event, in order."""
    answers = re.findall(r"decisions-->>engine: (\w+)|: decide: (\w+)(?:, then (\w+))?", diagram)
    return [step for answer in answers for step in answer if step]


def test_the_drawn_event_has_the_steps_of_the_decisions_in_their_order() -> None:
    _, journey = BLOCK.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    [decisions] = [source for source in fairlead_modules() if source.name == "kube_fairlead.lifecycle.decisions"]
    [chain] = re.findall(
        r"^    (AskDriver -> .*?)\n\n", ast.get_docstring(decisions.tree) or "", re.MULTILINE | re.DOTALL
    )
    assert drawn_steps(journey) == [re.sub(r"\W.*", "", step.strip()) for step in chain.split("->")]


def test_a_step_that_is_not_drawn_is_found() -> None:
    assert drawn_steps("decisions-->>engine: AskDriver\nengine->>x: decide: A, then B\nx->>y: C") == [
        "AskDriver",
        "A",
        "B",
    ]


def test_a_module_that_is_not_there_is_found() -> None:
    assert unknown_modules("```mermaid\nflowchart LR\n  a[kube_fairlead.nothing]\n```") == ["kube_fairlead.nothing"]
    assert unknown_modules('```mermaid\nflowchart LR\n  a["kube_fairlead.agent"]\n```\nkube_fairlead.nothing') == []
