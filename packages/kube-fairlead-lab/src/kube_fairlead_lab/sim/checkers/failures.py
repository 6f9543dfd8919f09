"""The server never fails at a request by itself. The environment checks processes that end by themselves."""

from __future__ import annotations

from typing import Final

from kube_fairlead.client.transport import Request
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Failures"]

_DISK_FULL: Final = "database space exceeded"


class Failures:
    """Reports every request that failed in the server itself."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        environment.network.on_failure.append(self._failed)

    def _failed(self, request: Request, why: str) -> None:
        # A full disk is no bug.
        if _DISK_FULL not in why:
            self._environment.violate(Violation("no crash", f"the server failed at {request}: {why}"))
