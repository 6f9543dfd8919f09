"""docs/testing-your-operator.md: its file of tests is run as it stands there, by the command that stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "testing-your-operator.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"<!-- run: (\w+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))


def test_its_tests_pass(tmp_path: Path) -> None:
    (tmp_path / "test_adopt.py").write_text(PROGRAMS["tests"], encoding="utf-8")
    environment = {**os.environ, "PATH": f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "-euc", PROGRAMS["shell"]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 passed" in result.stdout
    assert "Warning" not in result.stdout + result.stderr
