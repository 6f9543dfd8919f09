"""Runs on Windows: the agent as it is, except that the machine seems to go down whenever its service is stopped.

Wine ends a service three seconds after it was told of a shutdown. A STOP has no such limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from kube_fairlead.agent.windows import service
from kube_fairlead.agent.windows.control import Control
from kube_fairlead.cli.main import main


class Calls(service.WindowsCalls):
    def register(self, name: str, handler: Callable[[int], int]) -> None:
        super().register(name, lambda control: handler(Control.PRESHUTDOWN if control == Control.STOP else control))


if __name__ == "__main__":
    service.WindowsCalls = Calls  # type: ignore[misc]  # in the place of the real one
    sys.exit(main())
