"""Probe whether drivers respond.

A socket file does not prove that its driver runs: a killed process leaves its socket behind, and the kernel accepts
connections for a stopped one. The claimant therefore probes a driver before it claims an event for it
(`DriverProbe.probe`), and probes an unresponsive driver until it responds (`DriverProbe.run`). A probe is a call of
GetTransitions: every driver implements it, and it changes nothing.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go
"""

from __future__ import annotations

import asyncio
from typing import Final

from kube_fairlead.base import logs, tasks
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.claimant.driver_directory import DriverDirectory, Registration
from kube_fairlead.driverapi.errors import DriverError, DriverGone
from kube_fairlead.lifecycle.facts import Unreachable

__all__ = ["DriverProbe"]

# For connecting and responding, as in the kubelet's plugin manager.
_ANSWER_SECONDS: Final = 10.0
_RETRY: Final = Backoff(initial_seconds=0.1, factor=2.0, cap_seconds=5.0, jitter=0.5)

_log = logs.get_logger(__name__)


class DriverProbe:
    """Probes the drivers of a directory, and marks there which are unreachable."""

    def __init__(self, directory: DriverDirectory, *, node_name: str, clock: Clock, randomness: Randomness) -> None:
        self._directory = directory
        self._node_name = node_name
        self._clock = clock
        self._randomness = randomness

    async def probe(self, registration: Registration) -> bool:
        """Whether a driver responds now. An error of the driver is a response."""
        try:
            async with self._clock.timeout(_ANSWER_SECONDS):
                await registration.channel.get_transitions(self._node_name)
        except (DriverGone, TimeoutError) as error:
            reason = str(error) or f"no answer within {_ANSWER_SECONDS:g} s"
            self._directory.mark_unreachable(registration, Unreachable(self._clock.now(), reason))
            return False
        except DriverError:
            pass
        self._directory.answered(registration)
        return True

    async def run(self) -> None:
        """Probe unresponsive drivers, each with its own backoff. Runs until cancelled."""
        changed = asyncio.Event()
        forget = self._directory.on_change(changed.set)
        probes: dict[Registration, asyncio.Task[None]] = {}
        try:
            async with tasks.TaskScope("probe", on_exit=tasks.OnExit.CANCEL) as scope:
                while True:
                    changed.clear()
                    for registration in self._directory.unresponsive:
                        if registration not in probes or probes[registration].done():
                            probes[registration] = scope.start(
                                self._probe_until_reachable(registration), name=registration.driver
                            )
                    for registration in [one for one, task in probes.items() if task.done()]:
                        del probes[registration]
                    await changed.wait()
        finally:
            forget()

    async def _probe_until_reachable(self, registration: Registration) -> None:
        delays = _RETRY.delays(self._randomness)
        _log.warning("driver unreachable", driver=registration.driver, endpoint=registration.endpoint)
        while registration in self._directory.unresponsive:
            await self._clock.sleep(next(delays))
            if registration in self._directory.unresponsive and await self.probe(registration):
                _log.info("driver reachable again", driver=registration.driver, endpoint=registration.endpoint)
