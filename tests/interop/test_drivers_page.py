"""docs/drivers.md: `Trying it` is run as it stands there, with the driver from the top of the page."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.testing import require_real
from fairlead.testing.binaries import KubeBinaries

PAGE = (Path(__file__).parents[2] / "docs" / "drivers.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"<!-- run: (\w+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))
SECONDS = 90


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: sockets are made below it."""
    made = Path(tempfile.mkdtemp(prefix="drivers-page-"))
    yield made
    shutil.rmtree(made)


@pytest.mark.kube  # which is where kubectl comes from; the server is ours
async def test_trying_it(folder: Path) -> None:
    binaries = KubeBinaries.find()
    require_real("kubectl", present=not binaries.missing("kubectl"), remedy="run: make kube")
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl").symlink_to(binaries.component("kubectl"))
    (folder / "reboot.py").write_text(PROGRAMS["driver"], encoding="utf-8")
    with (folder / "errors").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-euc",
            PROGRAMS["shell"],
            cwd=folder,
            env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)},
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert process.stdout is not None
    said = b""
    try:
        async with asyncio.timeout(SECONDS):
            while not said.endswith(b"Rebooted"):
                more = await process.stdout.read(4096)
                assert more, (folder / "errors").read_text(encoding="utf-8")
                said += more
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # what it started in the background, and nothing else
        await process.communicate()
