"""Warn that the node of the agent does not exist. The agent waits for it; the name may be mistyped."""

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
    """A component that watches the node."""

    @property
    def node_is_missing(self) -> bool:
        """Whether the API server has no such node, as far as the watch shows."""
        ...


async def warn_while_missing(observer: NodeObserver, node_name: str, clock: Clock) -> None:
    """Log a warning while the node does not exist, repeated rarely, and log when it registers. Runs until cancelled."""
    warned_at: float | None = None
    while True:
        await clock.sleep(_LOOK_SECONDS)
        if observer.node_is_missing:
            if warned_at is None or clock.monotonic() - warned_at >= _AGAIN_SECONDS:
                _log.warning(
                    "node does not exist; the agent waits until it registers (--node-name sets another name)",
                    node=node_name,
                )
                warned_at = clock.monotonic()
        elif warned_at is not None:
            _log.info("node registered", node=node_name)
            warned_at = None
