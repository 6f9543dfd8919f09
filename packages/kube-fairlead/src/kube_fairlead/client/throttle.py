"""A limit on one client's request rate. Off by default: the API server has priority and fairness.

Upstream: k8s.io/client-go@v0.36.4/util/flowcontrol/throttle.go
"""

from __future__ import annotations

from kube_fairlead.base.clock import Clock

__all__ = ["Throttle"]


class Throttle:
    """A token bucket: a burst, then so many requests a second. First come, first served."""

    def __init__(self, clock: Clock, *, per_second: float, burst: int) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError("per_second must be positive and burst at least 1")
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._empty_at = clock.monotonic() - burst / per_second

    async def wait_turn(self) -> None:
        """Wait until one more request is within the limit. A cancelled wait does not return its token."""
        now = self._clock.monotonic()
        # The bucket is described by the moment at which it was, or will be, empty.
        self._empty_at = max(self._empty_at, now - self._burst / self._per_second) + 1 / self._per_second
        if self._empty_at > now:
            await self._clock.sleep(self._empty_at - now)
