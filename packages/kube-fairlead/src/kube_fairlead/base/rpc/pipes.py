"""Named pipes, by which programs on one Windows machine reach each other as others do by unix sockets."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["open_pipe"]


async def open_pipe(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the server of a pipe. Only the event loop of Windows can.

    Raises:
        OSError: no process serves it.
    """
    loop: Any = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.create_pipe_connection(lambda: protocol, path)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
