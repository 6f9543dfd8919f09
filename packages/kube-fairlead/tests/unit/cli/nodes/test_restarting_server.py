"""A command that begins while the API server is restarted waits for it, from its first request on."""

from __future__ import annotations

import asyncio
import sys

from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import EmbeddedControlPlane

SECONDS = 60.0


async def test_the_first_request_waits_for_a_server_that_is_restarted(
    fairlead_apiserver: EmbeddedControlPlane,
) -> None:
    plane = fairlead_apiserver
    await plane.stop_server()
    words = ["drain", f"--kubeconfig={plane.kubeconfig}", "-l", "pool=none"]
    command = await asyncio.create_subprocess_exec(
        sys.executable, "-u", "-m", "kube_fairlead.cli", *words, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with RealClock().timeout(SECONDS):
            assert command.stderr is not None
            assert await command.stderr.readline() == b"waiting for the API server to answer\n"
            await plane.start_server()
            said = await command.stderr.read()
            assert (await command.wait(), said) == (0, b"")
    finally:
        if command.returncode is None:
            command.kill()
            await command.wait()
