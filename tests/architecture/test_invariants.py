"""The numbers that code cites as invariants are those of the table in ARCHITECTURE.md, and lead there and back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.architecture.source import ROOT, Source, assert_clean, fairlead_modules, snippet

PAGE = ROOT / "ARCHITECTURE.md"
CITED = re.compile(r"\binvariants?\s+((?:\d+|,\s*|\s+|and\b|to\b)+)", re.IGNORECASE)
ROW = re.compile(r"^\| (\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
RAISED: dict[str, type[int | str]] = {"InvariantBroken": int, "Violation": str}

Table = dict[int, tuple[list[str], list[str]]]


def table(page: str) -> Table:
    """By number: the modules that decide, and the modules that check."""
    section = page.partition("\n## Invariants\n")[2].partition("\n## ")[0]
    return {
        int(number): (re.findall(r"`([^`]+)`", decided), re.findall(r"`([^`]+)`", checked))
        for number, decided, checked in ROW.findall(section)
    }


def cited(source: Source) -> set[int]:
    """Numbers in comments and docstrings, and those that an error is raised with."""
    numbers: set[int] = set()
    if not re.search("invariant|violation", source.text, re.IGNORECASE):
        return numbers  # most modules, at once
    for words in CITED.findall(re.sub(r"\n\s*#?\s*", " ", source.text)):
        for first, last in re.findall(r"(\d+)(?:\s+to\s+(\d+))?", words):
            numbers.update(range(int(first), int(last or first) + 1))
    numbers.update(int(value) for value in _raised(source) if isinstance(value, int) or value.isdecimal())
    return numbers


def _raised(source: Source) -> Iterator[int | str]:
    """What errors about invariants are raised with: a number in the product, its digits in the simulation."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            value = node.args[0].value
            name = ast.unparse(node.func).rpartition(".")[2]
            if isinstance(value, int | str) and RAISED.get(name) is type(value):
                yield value


def unknown_numbers(source: Source) -> list[str]:
    known = table(PAGE.read_text(encoding="utf-8"))
    return [
        source.finding(1, f"cites invariant {number}, which is not in the table")
        for number in cited(source) - set(known)
    ]


def silent_modules(rows: Table, sources: Iterable[Source]) -> list[str]:
    """Modules that the table names and that do not exist, or do not name the number."""
    by_path = {source.name.partition(".")[2].replace(".", "/"): source for source in sources}
    findings = []
    for number, columns in rows.items():
        findings += [f"invariant {number} is decided or checked nowhere" for column in columns if not column]
        for path in (path for column in columns for path in column):
            if path not in by_path:
                findings.append(f"invariant {number}: no module {path}")
            elif number not in cited(by_path[path]):
                findings.append(f"invariant {number}: {path} does not cite it")
    return findings


def test_code_cites_invariants_of_the_table() -> None:
    assert_clean(fairlead_modules(), unknown_numbers)


def test_the_table_names_modules_that_cite_it() -> None:
    rows = table(PAGE.read_text(encoding="utf-8"))
    assert list(rows) == list(range(1, len(rows) + 1))
    assert silent_modules(rows, fairlead_modules()) == []


def test_citations_are_read() -> None:
    assert cited(snippet('"""Invariants 1, 2 and 5 hold, (invariant\n9) too."""')) == {1, 2, 5, 9}
    assert cited(snippet("x = 1  # invariants 3 to 5 hold for 7 nodes")) == {3, 4, 5}
    assert cited(snippet('raise Violation("4", "late")\nraise errors.InvariantBroken(2, "x")')) == {2, 4}
    assert cited(snippet('raise Violation("history", "x")\n"""The invariants of 12 months; rule 3."""')) == set()


def test_a_number_that_is_not_in_the_table_is_found() -> None:
    assert unknown_numbers(snippet("x = 1  # invariant 99"))
    assert unknown_numbers(snippet("x = 1  # invariant 1")) == []


def test_a_module_that_does_not_cite_its_number_is_found() -> None:
    modules = [snippet("x = 1  # invariant 1", "kube_fairlead.agent.x"), snippet("x = 1", "kube_fairlead.agent.y")]
    assert silent_modules({1: (["agent/x"], ["agent/x"])}, modules) == []
    assert silent_modules({1: (["agent/x"], ["agent/y"])}, modules) == ["invariant 1: agent/y does not cite it"]
    assert silent_modules({1: (["agent/z"], ["agent/x"])}, modules) == ["invariant 1: no module agent/z"]
    assert silent_modules({1: ([], ["agent/x"])}, modules) == ["invariant 1 is decided or checked nowhere"]
