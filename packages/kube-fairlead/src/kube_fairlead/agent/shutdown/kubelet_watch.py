"""The kubelet while it ends the pods of a machine that goes down."""

from __future__ import annotations

from typing import Final

import msgspec

from kube_fairlead.agent.shutdown.pod_runtime import KubeletControl, RuntimeFailed
from kube_fairlead.agent.shutdown.pod_terminator import PodTerminator
from kube_fairlead.agent.shutdown.progress import ShutdownProgress
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock

__all__ = ["watch"]

_POLL_SECONDS: Final = 0.25

_log = logs.get_logger(__name__)


async def watch(kubelet: KubeletControl, course: ShutdownProgress, conductor: PodTerminator, clock: Clock) -> None:
    """Let the kubelet end its pods. One that does not, or not any more, while pods run has forgotten: the agent owns.

    One that still holds the machine up when our time is over is at work, and is left to it: its own time may be longer.
    """
    while course.left:
        try:
            holds = await kubelet.ends_pods()
        except RuntimeFailed:
            holds = True  # nothing answers; it may well be at work
        else:
            if holds and not course.state.kubelet_held:
                course.change(msgspec.structs.replace(course.state, kubelet_held=True))
        if not holds:
            if await conductor.running() is not None:
                _log.warning("the kubelet does not end its pods; taking over", left_seconds=round(course.left, 1))
                course.change(msgspec.structs.replace(course.state, owner="agent"))
            return
        await clock.sleep(_POLL_SECONDS)
    _log.warning("the kubelet still ends its pods when the time is over, and is left to it")
