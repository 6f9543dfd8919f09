"""Alarms: a function above 70 lines or a file above 450 is two things in one."""

from __future__ import annotations

import ast

from tests.architecture.source import Source, assert_clean, every_file, snippet

FUNCTION_LINES = 70
FILE_LINES = 450


def oversized(source: Source) -> list[str]:
    lines = source.text.count("\n")
    findings = [source.finding(1, f"has {lines} lines, more than {FILE_LINES}")] if lines > FILE_LINES else []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                findings.append(
                    source.finding(node.lineno, f"{node.name} has {length} lines, more than {FUNCTION_LINES}")
                )
    return findings


def test_nothing_is_oversized() -> None:
    assert_clean(every_file(), oversized)


def test_a_long_function_is_found() -> None:
    assert oversized(snippet("def f():\n" + "    x = 1\n" * (FUNCTION_LINES - 1))) == []
    assert oversized(snippet("def f():\n" + "    x = 1\n" * FUNCTION_LINES))
    assert oversized(snippet("class C:\n    async def f(self):\n" + "        x = 1\n" * FUNCTION_LINES))


def test_a_long_file_is_found() -> None:
    assert oversized(snippet("x = 1\n" * FILE_LINES)) == []
    assert oversized(snippet("x = 1\n" * (FILE_LINES + 1)))
