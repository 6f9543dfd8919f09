"""The kubelet after a shutdown that was called off: it must hold the machine up again, or the next one has no grace.

Kubelet 1.36 takes a new lock then and closes the one that it gave back long since. The new one often has the same
number, so that it is the new one that is closed. A kubelet that was restarted in the middle has none either: logind
gives none while a shutdown is under way. Both are mended by starting it anew.
"""

from __future__ import annotations

from typing import Final

from kube_fairlead.agent.shutdown.pod_runtime import KubeletControl, RuntimeFailed
from kube_fairlead.agent.shutdown.pod_terminator import PodTerminator
from kube_fairlead.agent.shutdown.progress import ShutdownProgress
from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness

__all__ = ["has_lost_its_lock", "start"]

_POLL_SECONDS: Final = 0.5
# It gives one lock back before it asks for the next; that moment is no loss.
_MISSING_SECONDS: Final = 3.0
# Whether the lock is still the old one cannot be seen. It is given back as soon as no pod of the kubelet runs.
_SETTLED_SECONDS: Final = 5.0
_RETRY: Final = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=30.0, jitter=0.3)

_log = logs.get_logger(__name__)


async def start(kubelet: KubeletControl, clock: Clock, randomness: Randomness) -> None:
    """Start it until it runs: a node without one is of no use."""
    delays = _RETRY.delays(randomness)
    while True:
        try:
            return await kubelet.start()
        except RuntimeFailed as error:
            _log.error("the kubelet cannot be started again; trying on", error=str(error))
        await clock.sleep(next(delays))


async def has_lost_its_lock(
    kubelet: KubeletControl, course: ShutdownProgress, conductor: PodTerminator, clock: Clock
) -> bool:
    """Whether a kubelet that held the machine up does so no more, once it has come to know that all is called off."""
    missing = settled = 0.0
    while missing < _MISSING_SECONDS and settled < _SETTLED_SECONDS:
        await clock.sleep(_POLL_SECONDS)
        holds = await _holds(kubelet)
        missing = 0.0 if holds else missing + _POLL_SECONDS
        over = not course.left or (holds and await conductor.running() is None)
        settled = settled + _POLL_SECONDS if holds and over else 0.0
    return missing >= _MISSING_SECONDS


async def _holds(kubelet: KubeletControl) -> bool:
    try:
        return await kubelet.ends_pods()
    except RuntimeFailed:
        return True  # nobody to ask; then nothing is done about it
