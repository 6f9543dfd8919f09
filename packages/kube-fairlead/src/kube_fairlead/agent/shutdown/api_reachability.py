"""Whether the API server responds, as the last request of the agent has shown."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.base.clock import Clock
from kube_fairlead.client import errors as client_errors

__all__ = ["API_ERRORS", "ApiReachability"]

API_ERRORS: Final = (client_errors.ClientError, api_errors.ApiError, TimeoutError, ExceptionGroup)


class ApiReachability:
    """Shared by all parts of a shutdown, so that one of them waits for a server that does not respond, not each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.is_lost = False

    @contextlib.asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Limit a block of requests in time, and note whether the server responds. A rejection is a response."""
        try:
            async with self._clock.timeout(seconds):
                yield
        except api_errors.ApiError:
            self.is_lost = False
            raise
        except ExceptionGroup as several:
            self.is_lost = several.split(api_errors.ApiError)[1] is not None
            raise
        except (client_errors.ClientError, TimeoutError):
            self.is_lost = True
            raise
        self.is_lost = False
