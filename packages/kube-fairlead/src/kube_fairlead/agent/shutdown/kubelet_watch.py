"""Watch the kubelet while it terminates pods, and restart it after a cancelled shutdown.

Kubelet 1.36 takes a new lock when a shutdown is cancelled, and then closes the file descriptor of the lock that it
released before. The new lock often has the same number and is closed instead. A kubelet that was restarted during the
shutdown has no lock either, because logind grants none then. A restart repairs both.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kube_fairlead.agent.shutdown.pod_runtime import KubeletControl, RuntimeFailed
from kube_fairlead.agent.shutdown.pod_terminator import PodTerminator
from kube_fairlead.agent.shutdown.progress import ShutdownProgress
from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness

__all__ = ["has_lost_lock", "start_until_running", "watch"]

_WATCH_POLL_SECONDS: Final = 0.25
_LOCK_POLL_SECONDS: Final = 0.5
# The kubelet releases one lock before it takes the next; that moment does not count.
_MISSING_SECONDS: Final = 3.0
# The agent cannot see whether the lock is the old one. The kubelet releases that one when none of its pods runs.
_SETTLED_SECONDS: Final = 5.0
_RETRY: Final = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=30.0, jitter=0.3)

_log = logs.get_logger(__name__)


async def watch(kubelet: KubeletControl, progress: ShutdownProgress, terminator: PodTerminator, clock: Clock) -> None:
    """Wait while the kubelet terminates its pods. If it stops doing so while pods run, the agent takes over.

    A kubelet that still holds its shutdown lock after the agent's periods is not interrupted: its own may be longer.
    """
    while progress.left:
        try:
            holds = await kubelet.ends_pods()
        except RuntimeFailed:
            holds = True  # unknown; the kubelet may be terminating pods
        else:
            if holds and not progress.state.kubelet_held:
                progress.change(msgspec.structs.replace(progress.state, kubelet_held=True))
        if not holds:
            if await terminator.running() is not None:
                left = round(progress.left, 1)
                _log.warning("kubelet does not terminate its pods; agent takes over", left_seconds=left)
                progress.change(msgspec.structs.replace(progress.state, owner="agent"))
            return
        await clock.sleep(_WATCH_POLL_SECONDS)
    _log.warning("kubelet still terminates pods after the shutdown period")


async def start_until_running(kubelet: KubeletControl, clock: Clock, randomness: Randomness) -> None:
    """Start the kubelet, and retry until it runs."""
    delays = _RETRY.delays(randomness)
    while True:
        try:
            return await kubelet.start()
        except RuntimeFailed as error:
            _log.error("cannot start the kubelet; retrying", error=str(error))
        await clock.sleep(next(delays))


async def has_lost_lock(
    kubelet: KubeletControl, progress: ShutdownProgress, terminator: PodTerminator, clock: Clock
) -> bool:
    """Whether the kubelet holds no shutdown lock after it noticed the cancellation."""
    missing = settled = 0.0
    while missing < _MISSING_SECONDS and settled < _SETTLED_SECONDS:
        await clock.sleep(_LOCK_POLL_SECONDS)
        holds = await _holds_lock(kubelet)
        missing = 0.0 if holds else missing + _LOCK_POLL_SECONDS
        over = not progress.left or (holds and await terminator.running() is None)
        settled = settled + _LOCK_POLL_SECONDS if holds and over else 0.0
    return missing >= _MISSING_SECONDS


async def _holds_lock(kubelet: KubeletControl) -> bool:
    try:
        return await kubelet.ends_pods()
    except RuntimeFailed:
        return True  # unknown, so the kubelet is not restarted
