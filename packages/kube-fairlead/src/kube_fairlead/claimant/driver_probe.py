"""Asking drivers whether they answer.

A socket file is not a driver: a process that was killed leaves its socket behind, and one that is stopped still has its
connections accepted by the kernel. So a driver is asked before an event is claimed for it (`Contact.ask`), and one that
does not answer is asked again until it does (`Contact.run`). The question is GetTransitions: every driver has it, and
it changes nothing.

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
from kube_fairlead.lifecycle.facts import Silence

__all__ = ["DriverProbe"]

# To dial, and to answer, as the kubelet's plugin manager gives a plugin.
_ANSWER_SECONDS: Final = 10.0
_AGAIN: Final = Backoff(initial_seconds=0.1, factor=2.0, cap_seconds=5.0, jitter=0.5)

_log = logs.get_logger(__name__)


class DriverProbe:
    """Asks the drivers of a directory whether they answer, and notes there which do not."""

    def __init__(self, directory: DriverDirectory, *, node_name: str, clock: Clock, randomness: Randomness) -> None:
        self._directory = directory
        self._node_name = node_name
        self._clock = clock
        self._randomness = randomness

    async def ask(self, registration: Registration) -> bool:
        """Whether it answers now. An answer that is an error is an answer."""
        try:
            async with self._clock.timeout(_ANSWER_SECONDS):
                await registration.channel.get_transitions(self._node_name)
        except (DriverGone, TimeoutError) as error:
            words = str(error) or f"no answer within {_ANSWER_SECONDS:g} s"
            self._directory.silent(registration, Silence(self._clock.now(), words))
            return False
        except DriverError:
            pass
        self._directory.answered(registration)
        return True

    async def run(self) -> None:
        """Ask those that do not answer again, each at a pace of its own, until cancelled."""
        changed = asyncio.Event()
        forget = self._directory.on_change(changed.set)
        asking: dict[Registration, asyncio.Task[None]] = {}
        try:
            async with tasks.TaskScope("contact", on_exit=tasks.OnExit.CANCEL) as scope:
                while True:
                    changed.clear()
                    for registration in self._directory.mute:
                        if registration not in asking or asking[registration].done():
                            asking[registration] = scope.start(
                                self._until_it_answers(registration), name=registration.driver
                            )
                    for registration in [one for one, task in asking.items() if task.done()]:
                        del asking[registration]
                    await changed.wait()
        finally:
            forget()

    async def _until_it_answers(self, registration: Registration) -> None:
        delays = _AGAIN.delays(self._randomness)
        _log.warning("driver does not answer", driver=registration.driver, endpoint=registration.endpoint)
        while registration in self._directory.mute:
            await self._clock.sleep(next(delays))
            if registration in self._directory.mute and await self.ask(registration):
                _log.info("driver answers again", driver=registration.driver, endpoint=registration.endpoint)
