"""Runs on Windows: a container runtime on a named pipe, with containers that exist only here.

hollow_runtime.py PIPE FOLDER: containers.json in the folder says what runs; runtime.log gets everything that is asked.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import sys
import time
from typing import Any

import grpclib.server

from tests.unit.agent.shutdown.cri.fakeruntime import FakeRuntime


class Log(list[str]):
    """Lines in a file as well, each with its time."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self._path = path

    def append(self, line: str) -> None:
        super().append(line)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{time.time():.3f} {line}\n")


class HollowRuntime(FakeRuntime):
    def _end(self, name: str, code: int) -> None:
        super()._end(name, code)
        self.log.append(f"ended {name} {self.codes[name]}")


async def main(pipe: str, folder: pathlib.Path) -> None:
    runtime = HollowRuntime()
    runtime.log = Log(folder / "runtime.log")
    for container in json.loads((folder / "containers.json").read_text(encoding="utf-8")):
        runtime.add(container["name"], container["uid"], needs=container["needs"], pod=container["name"])
    loop: Any = asyncio.get_running_loop()
    server = grpclib.server.Server([runtime])
    await loop.start_serving_pipe(server._protocol_factory, pipe)
    runtime.log.append("serves")
    await asyncio.to_thread(sys.stdin.read)  # whoever started it ends it by closing its input


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], pathlib.Path(sys.argv[2])))
