"""Rather no leader than two: a process whose work does not end when its term does exits with code 1, names what still
ran, and leaves its Lease to expire."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5366.components import ELECTION, until

PROGRAM = Path(__file__).with_name("stubborn.py")
# Two seconds until it gives up; a busy machine may be late, but not before.
SHORT = (
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=200ms",
)


class Stubborn:
    """One process of it."""

    def __init__(self, process: asyncio.subprocess.Process, api: RawApi, namespace: str) -> None:
        self.process = process
        self.path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/stubborn"
        self._api = api

    async def until_it_leads(self) -> str:
        """Its name in the Lease."""

        async def leads() -> bool:
            assert self.process.returncode is None, await self.last_words()
            return (await self._api.get(self.path)).code == 200

        await until(leads, what="it leads")
        return await self.holder()

    async def holder(self) -> str:
        spec: dict[str, Any] = (await self._api.get(self.path)).expect(200)["spec"]
        name: str = spec["holderIdentity"]
        return name

    async def last_words(self) -> str:
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()

    async def end(self) -> tuple[int, str]:
        """Wait until it has ended by itself: its exit code and what it said."""
        async with asyncio.timeout(60):
            said = await self.last_words()
            return await self.process.wait(), said


@contextlib.asynccontextmanager
async def running(
    manner: str, control_plane: ControlPlane, api: RawApi, namespace: str, *flags: str
) -> AsyncIterator[Stubborn]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        f"--manner={manner}",
        f"--kubeconfig={control_plane.kubeconfig}",
        f"--leader-elect-resource-namespace={namespace}",
        *flags,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Stubborn(process, api, namespace)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_work_that_does_not_end_when_asked(control_plane: ControlPlane, api: RawApi, namespace: str) -> None:
    flags = (*ELECTION, "--controller-shutdown-timeout=1s")
    async with running("deaf", control_plane, api, namespace, *flags) as stubborn:
        holder = await stubborn.until_it_leads()
        stubborn.process.send_signal(signal.SIGTERM)
        code, said = await stubborn.end()
        assert code == 1
        assert "work did not end within 1 s of the request to stop" in said
        assert f"term/{namespace}/stubborn/deaf" in said
        assert await stubborn.holder() == holder


async def test_work_that_outlives_a_lost_lease(control_plane: ControlPlane, api: RawApi, namespace: str) -> None:
    async with running("deaf", control_plane, api, namespace, *SHORT) as stubborn:
        await stubborn.until_it_leads()
        (await api.patch(stubborn.path, {"spec": {"holderIdentity": "somebody-else"}})).expect(200)
        code, said = await stubborn.end()
        assert code == 1
        assert "the lease is lost and work still runs" in said
        assert f"term/{namespace}/stubborn/deaf" in said


async def test_work_that_blocks_the_event_loop(control_plane: ControlPlane, api: RawApi, namespace: str) -> None:
    async with running("blocking", control_plane, api, namespace, *SHORT) as stubborn:
        await stubborn.until_it_leads()
        code, said = await stubborn.end()
        assert code == 1
        assert "the lease ran out and nothing reacted" in said
        assert "the event loop" in said
