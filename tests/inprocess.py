"""The real API server inside the test's own process, on virtual time: what worlds of unit tests are built on."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncIterator, Mapping

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_apiserver.access_control import make_access_control
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.security.pki.authority import Authority
from kube_fairlead_apiserver.security.pki.signing_key import SigningKey
from kube_fairlead_apiserver.server import ApiServer, Dependencies
from kube_fairlead_apiserver.storage.interface import Log
from kube_fairlead_apiserver.storage.memory_log import MemoryLog


@contextlib.asynccontextmanager
async def serving(
    folder: pathlib.Path, clock: Clock, *, log: Log | None = None, tokens: Mapping[str, UserInfo] | None = None
) -> AsyncIterator[ApiServer]:
    """A server that is ready, with its keys in `folder` and its objects in memory, unless there is another log."""
    randomness = SeededRandomness(7)
    ids = RandomIds(randomness)
    authority = Authority.open(folder / "pki", clock, randomness)
    signing_key = SigningKey.open(folder / "pki" / "service-account.key")
    server = ApiServer(
        log or MemoryLog(),
        Dependencies(clock, randomness, ids, DiscardedMetrics()),
        lambda core: make_access_control(
            core, clock, ids, authority, signing_key, dict(tokens or {}), "https://in.process"
        ),
    )
    server.open()
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(server.run(), name="server")
        await server.wait_ready()
        yield server
        server.end_watches()
