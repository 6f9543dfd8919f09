"""Plain technical English: words that hide the actor or stand for a Kubernetes verb stay out of texts.

CONTRIBUTING.md ("The voice") is the rule for people. This file enforces the part of it that a list of words can
decide. Read are the pages, and in code the docstrings, the comments and every string of two words or more: log
messages, errors, help and the like. Code samples, quoted literal output and names between backticks are not read.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.architecture.source import DISTRIBUTIONS, ROOT, Source, every_file, modules_of, snippet
from tests.architecture.test_pages import pages

# What is not written, and what is written instead.
INSTEAD: Mapping[str, str] = {
    r"(?:no|some|any|every)body(?:'s)?": "name the actor: the agent, the kubelet, a user, another client",
    r"who(?:m)?ever": "name the actor, or write `the client that`",
    r"tell|tells|telling|told": "say, report, notify, record; distinguish",
    r"untold": "not reported, not recorded",
    r"deeds?": "name it: a write, a call, an eviction",
    r"strokes? of (?:bad )?luck|bad luck|bad weather": "a fault, a step of the seed",
    r"(?:his|her|its|their|the|a|shutdown's) word (?:of|that|is|was)": "a condition, a status, a report",
    r"tak(?:e|es|en|ing) (?:\w+ )?back": "revert, remove, release, clear",
    r"took (?:\w+ )?back": "reverted, removed, released",
    r"g(?:et|ets|etting|ot) on(?! (?:a|the|its|each|every|which)\b)": "progress, continue; not: stalled",
    r"mend|mends|mended|mending": "fix, repair",
    r"let(?:s|ting)? go|let (?:it|them|him|one) go": "release, remove the finalizer, give up",
    r"put(?:s|ting)? (?:it |them |\w+ )?right": "reconcile, repair",
    r"see(?:s|n|ing)? \w+ out(?! of\b)": "terminate",
    r"f(?:all|alls|ell|allen|alling) silent": "stop reporting, stop renewing its Lease",
    r"deaf": "receives no events",
    r"behind (?:one|its|their|his|her)(?:'s)? backs?": "without notice, without a record",
}
# Pages are held to more, because they have no names to follow.
INSTEAD_ON_PAGES: Mapping[str, str] = {
    **INSTEAD,
    r"look(?:s|ed|ing)? after": "manage, handle, watch",
    r"(?:give|gives|given|giving|gave) (?:\w+ )?back": "release, return, revert",
    r"st(?:and|ands|ood|anding) by": "is passive, waits for the Lease",
    r"ow(?:e|es|ed)": "name it: the missing status",
    r"(?:of|that) which": "make it a sentence of its own",
    r"anew": "again",
    r"w(?:ind|inds|ound|inding) up": "revert, finish",
    r"g(?:o|oes|oing) on": "continue, resume",
}

# Scopes that are not clean yet. These lists only shrink: a scope that is clean must be taken out.
PAGES_LEFT_OUT: frozenset[str] = frozenset()
CODE_LEFT_OUT: frozenset[str] = frozenset()

_HIDDEN = (
    re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)[^\S\n]*$", re.MULTILINE | re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"^(?: {4,}|\t).*$", re.MULTILINE),
    re.compile(r"(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)", re.DOTALL),
    re.compile(r"(?<=\])\([^)\s]+\)"),
)


@functools.cache
def _pattern(*words: str) -> re.Pattern[str]:
    groups = "|".join(f"({word})" for word in words).replace(" ", r"\s+")
    return re.compile(rf"\b(?:{groups})(?!\w)", re.IGNORECASE)


def private_words(text: str, instead: Mapping[str, str] = INSTEAD) -> Iterator[tuple[int, str]]:
    """The line of each private word, counted from 0, and what to write in its place."""
    for found in _pattern(*instead).finditer(text):
        advice = list(instead.values())[(found.lastindex or 1) - 1]
        yield text.count("\n", 0, found.start()), f"{found.group()!r}: {advice}"


def prose(page: str) -> str:
    """A page with code and literal output blanked, line for line."""
    for pattern in _HIDDEN:
        page = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), page)
    return page


def page_findings(path: Path) -> list[str]:
    name = str(path.relative_to(ROOT))
    found = private_words(prose(path.read_text(encoding="utf-8")), INSTEAD_ON_PAGES)
    return [f"{name}:{line + 1} {what}" for line, what in found]


def code_findings(source: Source) -> list[str]:
    found = {(start + line, what) for start, text in _texts(source) for line, what in private_words(_spoken(text))}
    return [source.finding(line, what) for line, what in sorted(found)]


def _spoken(text: str) -> str:
    return _HIDDEN[3].sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def _texts(source: Source) -> Iterator[tuple[int, str]]:
    inside: set[ast.AST] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and node not in inside and " " in str(node.value).strip():
            yield node.lineno, str(node.value)
    if _pattern(*INSTEAD).search(source.text):  # comments cost more to find than words
        yield from source.comments()


def scopes() -> Mapping[str, tuple[Source, ...]]:
    """The code by scope: a package of a distribution, or a folder beside them."""
    found: dict[str, list[Source]] = {}
    for distribution in DISTRIBUTIONS:
        for module in modules_of(distribution):
            found.setdefault(f"{distribution}.{module.package}".rstrip("."), []).append(module)
    for source in every_file():
        if (folder := source.path.split("/")[0]) in {"bench", "examples", "hack"}:
            found.setdefault(folder, []).append(source)
    return {name: tuple(sources) for name, sources in found.items()}


def overdue(left_out: Iterable[str], findings: Mapping[str, list[str]]) -> list[str]:
    """What is left out and clean, or is not there at all."""
    return sorted(name for name in left_out if not findings.get(name))


def assert_plain(left_out: frozenset[str], findings: Mapping[str, list[str]]) -> None:
    found = [finding for name, some in findings.items() if name not in left_out for finding in some]
    assert not found, "\n".join([f"{len(found)} private words (CONTRIBUTING.md, The voice):", *found])
    assert not overdue(left_out, findings), "these are clean or gone: take them out of the list of those left out"


def test_pages_are_plain() -> None:
    assert_plain(PAGES_LEFT_OUT, {str(page.relative_to(ROOT)): page_findings(page) for page in pages()})


def test_code_is_plain() -> None:
    findings = {
        name: [one for source in sources for one in code_findings(source)] for name, sources in scopes().items()
    }
    assert_plain(CODE_LEFT_OUT, findings)


@pytest.mark.parametrize(
    "text",
    [
        "A machine of nobody's.",
        "Somebody asks for it.",
        "Whoever holds it, ends it.",
        "The user is told.",
        "It tells the API.",
        "The deed is done.",
        "A stroke of luck.",
        "A word that nobody takes back.",
        "The cordon is taken back.",
        "The event does not get on.",
        "It was mended.",
        "The agent lets go of the event.",
        "The claim\nof somebody else.",
    ],
)
def test_a_private_word_is_found(text: str) -> None:
    assert list(private_words(prose(text), INSTEAD_ON_PAGES))
    assert code_findings(snippet(f"raise ValueError({text!r})"))
    assert code_findings(snippet(f'"""{text}"""'))
    assert code_findings(snippet(f'log.info(f"{{x}} {" ".join(text.split())}")'))
    assert code_findings(snippet(f"x = 1  # {' '.join(text.split())}"))


@pytest.mark.parametrize(
    "text",
    [
        "The agent retries.",
        "It gets on the list of the scheduler.",
        "```console\n$ x\nnobody\n```",
        "Prints:\n\n    waits for somebody\n",
        "The message `left to whoever answers` names them.",
        "See [this](nobody.md).",
        "<!-- nobody -->",
        "Indeed, recommended: amend it.",
    ],
)
def test_plain_words_and_literal_output_pass(text: str) -> None:
    assert list(private_words(prose(text), INSTEAD_ON_PAGES)) == []


def test_pages_are_held_to_more_than_code() -> None:
    assert list(private_words("The claimer looks after it.", INSTEAD_ON_PAGES))
    assert code_findings(snippet('"""The claimer looks after it."""')) == []


def test_names_and_single_words_of_code_pass() -> None:
    assert code_findings(snippet("told = {'told': 1}  # `told` is a key")) == []


def test_the_line_is_named() -> None:
    [finding] = code_findings(snippet('x = 1\n"""Plain.\n\nNobody knows.\n"""\n'))
    assert finding.startswith("kube_fairlead.agent.probe.py:4 'Nobody'")


def test_a_scope_that_is_clean_is_not_left_out() -> None:
    assert overdue({"clean", "gone", "dirty"}, {"clean": [], "dirty": ["x"]}) == ["clean", "gone"]
    with pytest.raises(AssertionError, match="take them out"):
        assert_plain(frozenset({"clean"}), {"clean": []})
    with pytest.raises(AssertionError, match="1 private words"):
        assert_plain(frozenset(), {"dirty": ["a.md:1 'nobody'"]})
