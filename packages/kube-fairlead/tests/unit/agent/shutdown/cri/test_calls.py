from __future__ import annotations

import subprocess
import sys

from kube_fairlead.agent.shutdown.cri import calls
from kube_fairlead.base.clock import RealClock

LOADED = """
import sys
from kube_fairlead.agent.shutdown.cri.calls import CriCalls, unix_socket
from kube_fairlead.base.clock import RealClock
ready = CriCalls(unix_socket("/nowhere"), RealClock())
from kube_fairlead.agent.shutdown.cri import calls
assert not calls._CONTRACT._classes
ready.make_ready()
assert len(calls._CONTRACT._classes) >= 12
assert not any(name.startswith("google") for name in sys.modules)
"""


async def test_every_call_is_made_ready_before_it_is_needed() -> None:
    asked: list[str] = []

    async def dial(method: str, request: bytes, timeout_seconds: float | None) -> bytes:
        del request, timeout_seconds
        asked.append(method.rpartition("/")[2])
        return b""

    runtime = calls.CriCalls(dial, RealClock())
    await runtime.running_containers()
    await runtime.containers_of("uid")
    await runtime.status("id")
    await runtime.stop("id", 1)
    await runtime.execute("id", ["true"], 1)
    await runtime.stop_sandbox("id")
    await runtime.sandbox_address("id")
    assert set(asked) == set(calls._METHODS)


def test_what_is_costly_to_load_is_loaded_then() -> None:
    subprocess.run([sys.executable, "-c", LOADED], check=True)
