"""docs/graceful-deletion.md says what the code does."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from kube_fairlead.lifecycle.deletion import Decision, Mark, Remove, State, Unchanged, decide_custom

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "graceful-deletion.md").read_text(encoding="utf-8")
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(seconds=60)
TEN = NOW + dt.timedelta(seconds=10)


@pytest.mark.parametrize(
    ("row", "state", "grace", "decision"),
    [
        ("| 1 | no | yes | none |", State(1), None, Mark(NOW, None)),
        ("| 2 | no | yes | 0 |", State(1), 0, Mark(NOW, 0)),
        ("| 3 | no | yes | n |", State(1), 10, Mark(TEN, 10)),
        ("| 4-6 | no | no | any |", State(0), 10, Remove()),
        ("| 7 | yes | yes | none |", State(1, LATER, 60), None, Unchanged()),
        ("| 8 | yes | yes | 0 |", State(1, LATER, 60), 0, Mark(NOW, 0)),
        ("| 9 | yes | yes | n |", State(1, LATER, 60), 10, Mark(TEN, 10)),
        ("| 10-12 | yes | none left | any |", State(0, LATER, 60), None, Remove()),
    ],
)
def test_the_table_on_the_page_is_the_one_that_is_tested(
    row: str, state: State, grace: int | None, decision: Decision
) -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith(row))
    assert decide_custom(state, grace, NOW) == decision
    words = {Remove: "removed at once", Unchanged: "unchanged", Mark: "deletionTimestamp = "}
    assert words[type(decision)] in line


def test_every_difference_on_the_page_has_its_test() -> None:
    section = PAGE.partition("What differs from our own server")[2].partition("\n## ")[0]
    listed = {int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)}
    shim = Path(__file__).parent / "shim"
    tested = {
        int(number)
        for name in ("test_differences.py", "test_webhook.py")
        for number in re.findall(r"^async def test_(\d+)_", (shim / name).read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert listed - tested == {9}, "only the clock cannot be shown by a test: there is one on this machine"
    assert tested <= listed
