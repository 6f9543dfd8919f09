"""docs/drain.md: the program there drains a node through `kube_fairlead.operations`, without the command line."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.spec.kep5683.draining import Fleet
from tests.spec.kep5683.site import condition

PAGE = (Path(__file__).parents[3] / "docs" / "drain.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"<!-- run: program -->\n```python\n(.*?)```", PAGE, re.DOTALL)


async def test_a_program_drains_a_node_and_prints_typed_progress(fleet: Fleet) -> None:
    await fleet.pod("web")
    program = fleet.folder / "drain_one.py"
    program.write_text(PROGRAM, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        fleet.node,
        env={**os.environ, "KUBECONFIG": str(fleet.plane.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, f"{said}\n{fleet.last_words()}"
    lines = said.splitlines()
    assert lines[0].startswith(f"{fleet.node}: drain requested by event node-drain-{fleet.node}-")
    assert any(line.startswith(f"{fleet.node}: Claimed: ") for line in lines)
    assert lines[-1] == f"{fleet.node}: Succeeded"
    assert await fleet.left() == []
    assert condition(await fleet.node_object())["reason"] == "DrainComplete"
