"""What users may import is stated in one file per distribution, and changes only on purpose."""

from __future__ import annotations

import ast
import difflib
import re

import pytest

from tests.architecture import surface
from tests.architecture.imports import imported
from tests.architecture.source import DISTRIBUTIONS, ROOT, Source, every_file, snippet

PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGE = ROOT / "docs" / "public-surface.md"


def public_modules() -> set[str]:
    return {
        module
        for distribution in DISTRIBUTIONS
        for module in surface.read_modules(surface.surface_file(distribution).read_text(encoding="utf-8"))
    }


def private_imports(source: Source, public: set[str]) -> list[str]:
    """Imports that reach past the public surface. `from module import name` is judged by the module that it names."""
    return [
        source.finding(line, f"imports {module}, which is not public")
        for line, module in imported(source)
        if module.split(".")[0] in DISTRIBUTIONS
        and not any(module == one or module.startswith(f"{one}.") for one in public)
    ]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_surface_is_what_the_file_states(distribution: str) -> None:
    path = surface.surface_file(distribution)
    stated = path.read_text(encoding="utf-8")
    found = surface.statement_of(surface.read_modules(stated))
    difference = difflib.unified_diff(stated.splitlines(), found.splitlines(), "stated", "in the code", lineterm="")
    assert stated == found, "\n".join([f"{path.name} of {distribution}: `make surface` accepts this:", *difference])


def test_the_page_names_every_public_module() -> None:
    named = set(re.findall(r"^\| `([\w.]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert named == public_modules()


def test_examples_import_the_public_surface_only() -> None:
    public = public_modules()
    examples = [source for source in every_file() if source.path.startswith("examples/")]
    assert examples
    assert [finding for source in examples for finding in private_imports(source, public)] == []


def test_pages_show_the_public_surface_only() -> None:
    public = public_modules()
    found = []
    for page in [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "packages").glob("*/README.md")),
    ]:
        for block in PYTHON_BLOCK.findall(page.read_text(encoding="utf-8")):
            try:
                ast.parse(block)
            except SyntaxError:
                continue  # a fragment
            found += private_imports(snippet(block, name=str(page.relative_to(ROOT))), public)
    assert found == []


def test_a_statement_has_signatures() -> None:
    assert "    deadline(item: " in surface.statement_of({"kube_fairlead.grace": "grace"})
    assert surface.read_modules("[a.b] for x\n    f(y)\n") == {"a.b": "for x"}


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("from kube_fairlead.claimant import engine", True),
        ("import kube_fairlead.claimant.engine", True),
        ("from kube_fairlead.client import connect", False),
        ("from kube_fairlead import client", False),
        ("import aiohttp", False),
    ],
)
def test_a_private_import_is_found(text: str, is_found: bool) -> None:
    assert bool(private_imports(snippet(text), {"kube_fairlead.client"})) is is_found
