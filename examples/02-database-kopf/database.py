"""A stand-in for a database: clients connect, begin, commit, and leave. All of its state is its connections.

The protocol is lines of text. A client sends `begin` and `commit` and the answer is `ok`. When the database drains, it
sends `draining` to all clients, disconnects the idle ones, and lets the others finish their transaction. `hurry` means
that there is little time left.
"""

from __future__ import annotations

import asyncio
import dataclasses

__all__ = ["Database"]


@dataclasses.dataclass(eq=False)
class _Connection:
    writer: asyncio.StreamWriter
    in_transaction: bool = False

    def say(self, word: str) -> None:
        self.writer.write(f"{word}\n".encode())


class Database:
    """One database on a port of its own."""

    def __init__(self) -> None:
        self.port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._draining = False
        self._somebody_left = asyncio.Event()

    async def start(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def drain(self, *, hurry: bool) -> None:
        """Accept no new client, disconnect idle ones, and wait until the last one has disconnected."""
        self._stop_accepting()
        self._draining = True
        for connection in list(self._connections):
            connection.say("draining")
            if not connection.in_transaction:
                connection.writer.close()
            elif hurry:
                connection.say("hurry")
        while self._connections:
            self._somebody_left.clear()
            await self._somebody_left.wait()

    def cut(self) -> int:
        """End every connection at once, transactions too; how many there were."""
        self._stop_accepting()
        cut = len(self._connections)
        for connection in self._connections:
            connection.writer.transport.abort()
        self._connections.clear()
        return cut

    def _stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        self._connections.add(connection)
        try:
            while word := (await reader.readline()).decode().strip():
                connection.in_transaction = word == "begin"
                connection.say("ok")
                if self._draining and not connection.in_transaction:
                    break
        except ConnectionError:
            pass  # it left without a word, or was cut
        finally:
            writer.close()
            self._connections.discard(connection)
            self._somebody_left.set()
