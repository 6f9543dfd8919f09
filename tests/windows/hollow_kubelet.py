"""Runs on Windows: a service in the place of a kubelet's.

hollow_kubelet.py            a kubelet that is a service: it accepts STOP and PRESHUTDOWN.
hollow_kubelet.py FILE       a wrapper that ignores STOP; its child is the kubelet, whose number is in the file.
"""

from __future__ import annotations

import asyncio
import pathlib
import subprocess
import sys
from collections.abc import Callable

from kube_fairlead.agent.windows import service
from kube_fairlead.agent.windows.control import Control
from kube_fairlead.base.clock import RealClock


class Deaf(service.WindowsCalls):
    def register(self, name: str, handler: Callable[[int], int]) -> None:
        super().register(name, lambda control: 0 if control == Control.STOP else handler(control))


async def forever() -> None:
    await asyncio.Event().wait()


def main(*files: str) -> None:
    for file in files:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
        pathlib.Path(file).write_text(str(child.pid))
    own = service.Service(Deaf() if files else service.WindowsCalls(), RealClock(), accepts_preshutdown=not files)
    own.start()
    asyncio.run(own.run(forever))
    own.finish()
    own.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
