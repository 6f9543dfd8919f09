"""Charters, names and comments: what people read before they read code."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.source import Source, assert_clean, every_file, fairlead_modules, snippet

EMPTY_NAMES = frozenset({"common", "helper", "helpers", "misc", "util", "utils"})
# Spelt in two halves, so that this file may talk about them.
UNFINISHED = re.compile("|".join(rf"\b{a}{b}\b" for a, b in (("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK"))))
SENTENCE_END = re.compile(r"[.!?](?:\s|$)")
EXCUSE = re.compile(r"#\s*(?:noqa|type:\s*ignore)\b(?P<rest>.*)")
CODES = re.compile(r"^(?::\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*|\[[a-z, -]+\])")


def charter_faults(source: Source) -> list[str]:
    if not source.is_package:
        return []
    charter = ast.get_docstring(source.tree) or ""
    if len(SENTENCE_END.findall(charter)) < 2:
        return [source.finding(1, "a package needs a charter: what belongs in it and what never does")]
    return []


def empty_names(source: Source) -> list[str]:
    findings = []
    if _says_nothing(source.name.rpartition(".")[2]):
        findings.append(source.finding(1, "this file's name says nothing"))
    findings += [
        source.finding(node.lineno, f"the name {node.name} says nothing")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _says_nothing(node.name)
    ]
    return findings


def _says_nothing(name: str) -> bool:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    if words[0] == "test":
        return False  # the name of a test is a sentence
    return words[-1] in {"utils", "helpers", "misc"} or "_".join(words) in EMPTY_NAMES


def unfinished(source: Source) -> list[str]:
    return [
        source.finding(number, "unfinished work belongs in an issue")
        for number, line in enumerate(source.text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]


def bare_excuses(source: Source) -> list[str]:
    """Comments that silence a tool must name the rule and say why."""
    findings = []
    for number, comment in source.comments():
        excuse = EXCUSE.search(comment)
        if excuse is None:
            continue
        codes = CODES.match(excuse["rest"])
        if codes is None:
            findings.append(source.finding(number, "silences every rule: name the one"))
        elif not re.search(r"[a-z]{2}", excuse["rest"][codes.end() :].replace("type: ignore", "")):
            findings.append(source.finding(number, "silences a rule without a reason"))
    return findings


def test_every_package_has_a_charter() -> None:
    assert_clean(fairlead_modules(), charter_faults)


def test_names_say_something() -> None:
    assert_clean(every_file(), empty_names)


def test_nothing_is_left_for_later() -> None:
    assert_clean(every_file(), unfinished)


def test_silenced_rules_have_a_reason() -> None:
    assert_clean(every_file(), bare_excuses)


@pytest.mark.parametrize("text", ["", "x = 1", '"""One sentence only."""', "# A comment. Not a docstring."])
def test_a_missing_charter_is_found(text: str) -> None:
    assert charter_faults(snippet(text, is_package=True))
    assert charter_faults(snippet(text)) == []


def test_a_charter_passes() -> None:
    assert charter_faults(snippet('"""Talks to servers.\n\nNever decides anything.\n"""', is_package=True)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kube_fairlead.agent.utils", ""),
        ("kube_fairlead.agent.string_utils", ""),
        ("kube_fairlead.common.x.helpers", ""),
        ("kube_fairlead.agent.x", "def helper(): pass"),
        ("kube_fairlead.agent.x", "class MiscHelpers: pass"),
        ("kube_fairlead.agent.x", "class C:\n    def _common(self): pass"),
    ],
)
def test_an_empty_name_is_found(name: str, text: str) -> None:
    assert empty_names(snippet(text, name))


def test_a_telling_name_passes() -> None:
    assert empty_names(snippet("def common_prefix(): pass", "kube_fairlead.agent.claims")) == []


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME", "XX" + "X"])
def test_unfinished_work_is_found(word: str) -> None:
    assert unfinished(snippet(f"x = 1  # {word}: finish this"))
    assert unfinished(snippet(f'"""Works.\n\n{word} later.\n"""'))
    assert unfinished(snippet("x = 1  # done")) == []


@pytest.mark.parametrize(
    "comment",
    ["noqa", "noqa: S311", "type: ignore", "type: ignore[assignment]", "noqa: S311, E501"],
)
def test_a_bare_excuse_is_found(comment: str) -> None:
    assert bare_excuses(snippet(f"x = 1  # {comment}"))


@pytest.mark.parametrize(
    "comment",
    ["noqa: S311 - replayable on purpose", "type: ignore[assignment] # the stub is wrong", "no excuse at all"],
)
def test_a_reason_passes(comment: str) -> None:
    assert bare_excuses(snippet(f"x = 1  # {comment}")) == []
