"""The API server uses the product's lowest layers only; CEL uses nothing of the server."""

from __future__ import annotations

import pytest

from tests.architecture.imports import imported
from tests.architecture.source import Source, assert_clean, modules_of, snippet

SERVER = "kube_fairlead_apiserver"
# What the server may use of the product. The command line loads the server's command, so that command may use it, too.
ALLOWED = frozenset({"api", "base", "lifecycle"})
COMMAND = f"{SERVER}.command"
CEL = f"{SERVER}.cel"


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


def test_cel_uses_nothing_of_the_server() -> None:
    assert_clean(modules_of(SERVER), bound_expressions)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{SERVER}.x", "from kube_fairlead.client import watch"),
        (f"{SERVER}.x", "from kube_fairlead import client"),
        (f"{SERVER}.x", "def f():\n    import kube_fairlead.agent.agent"),
        (f"{SERVER}.x", "from kube_fairlead_lab.hollow import fleet"),
        (f"{SERVER}.x", "from kube_fairlead.cli import options"),
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
        (COMMAND, "from kube_fairlead.cli import options"),
    ],
)
def test_an_allowed_import_passes(name: str, text: str) -> None:
    assert foreign_imports(snippet(text, name)) == []


def test_the_rule_for_cel_bites() -> None:
    assert bound_expressions(snippet(f"from {SERVER}.schema import model", f"{CEL}.values"))
    assert bound_expressions(snippet(f"from {SERVER} import regex", f"{CEL}.values"))
    assert bound_expressions(snippet(f"from {CEL} import values", f"{CEL}.checker")) == []
    assert bound_expressions(snippet(f"from {CEL} import values", f"{SERVER}.schema.model")) == []
