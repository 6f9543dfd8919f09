"""Telling that the node is not there. An agent goes on waiting for it; whoever mistyped a name should hear of it."""

from __future__ import annotations

from typing import Final, Protocol

from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock

__all__ = ["NodeObserver", "warn_while_missing"]

# A kubelet that is started together with the agent registers its node within moments.
_LOOK_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 600.0

_log = logs.get_logger(__name__)


class NodeObserver(Protocol):
    """Somebody who follows the node anyway."""

    @property
    def node_is_missing(self) -> bool:
        """Whether the API server has no such node, as far as is known."""
        ...


async def warn_while_missing(follower: NodeObserver, node_name: str, clock: Clock) -> None:
    """Warn when there is no such node, and again seldom; say so when it has come. Until cancelled."""
    told_at: float | None = None
    while True:
        await clock.sleep(_LOOK_SECONDS)
        if follower.node_is_missing:
            if told_at is None or clock.monotonic() - told_at >= _AGAIN_SECONDS:
                _log.warning(
                    "there is no such node: this agent has nothing to do until it registers; "
                    "if the name is wrong, --node-name says another",
                    node=node_name,
                )
                told_at = clock.monotonic()
        elif told_at is not None:
            _log.info("the node is there now", node=node_name)
            told_at = None
