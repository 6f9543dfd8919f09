"""`make demo`, as a newcomer runs it; and the README shows what it really prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kube_fairlead_lab.demo.scenes import SCENES

README = Path(__file__).parents[2] / "README.md"


def comparable(text: str) -> set[str]:
    """Lines without their times and numbers, which differ from run to run."""
    return {re.sub(r"[0-9.]+", "0", line.strip()) for line in text.splitlines() if line.strip()}


def test_every_scene_holds_and_the_readme_shows_what_is_printed() -> None:
    command = [sys.executable, "-m", "kube_fairlead.cli", "demo"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(SCENES)} scenes passed." in result.stdout
    assert all(f"[{name}]" in result.stdout for name in SCENES)
    shown = README.read_text(encoding="utf-8").partition("```console\n$ make demo\n")[2].partition("```")[0]
    assert shown
    assert comparable(shown) <= comparable(result.stdout)
