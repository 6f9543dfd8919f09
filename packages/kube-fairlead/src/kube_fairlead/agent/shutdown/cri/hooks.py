"""Run a container's preStop hook: a command, an HTTP request or a sleep.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/lifecycle/handlers.go
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
from collections.abc import Mapping
from typing import Any

from kube_fairlead.agent.shutdown.cri.calls import CriCalls
from kube_fairlead.agent.shutdown.pod_runtime import RuntimeFailed
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock

__all__ = ["run_hook"]

_log = logs.get_logger(__name__)


async def run_hook(
    hook: Mapping[str, Any], container: Any, address: str, calls: CriCalls, *, clock: Clock, timeout_seconds: float
) -> None:
    """Run a hook until it ends or times out. As in the kubelet, a failed hook does not stop the termination."""
    try:
        async with clock.timeout(timeout_seconds):
            await _run(hook, container, address, calls, clock, timeout_seconds)
    except TimeoutError:
        _log.warning("preStop hook timed out", container=container.metadata.name)
    except (RuntimeFailed, OSError, ValueError) as error:
        _log.warning("preStop hook failed", container=container.metadata.name, error=str(error))


async def _run(
    hook: Mapping[str, Any], container: Any, address: str, calls: CriCalls, clock: Clock, timeout_seconds: float
) -> None:
    if (command := hook.get("exec")) is not None:
        code = await calls.execute(container.id, list(command.get("command") or ()), math.ceil(timeout_seconds))
        if code:
            raise RuntimeFailed(f"the command exited with {code}")
    elif (pause := hook.get("sleep")) is not None:
        await clock.sleep(float(pause.get("seconds") or 0))
    elif (request := hook.get("httpGet")) is not None:
        await _get(request, address)


async def _get(request: Mapping[str, Any], address: str) -> None:
    """Send one GET. As in the kubelet, any response counts, whatever its status."""
    host, port = str(request.get("host") or address or "127.0.0.1"), request.get("port")
    if not isinstance(port, int):
        raise ValueError(f"port {port!r} is neither a number nor the name of a container port")  # noqa: TRY004 - a value of the user
    path = str(request.get("path") or "/")
    lines = [
        f"GET {path if path.startswith('/') else '/' + path} HTTP/1.1",
        f"Host: {host}:{port}",
        "Connection: close",
    ]
    lines += [f"{header.get('name')}: {header.get('value')}" for header in request.get("httpHeaders") or ()]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header contains a line break")
    tls = _unverified() if str(request.get("scheme") or "").upper() == "HTTPS" else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        await reader.readline()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _unverified() -> ssl.SSLContext:
    """As the kubelet, do not verify the container's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
