"""What can go wrong with a driver.

DriverError
├── DriverGone          not reachable, or it went away in the middle: calling again may help
├── DriverRefused       it answered with an error: the event has failed, and these are its words
└── DriverMisbehaved    it broke the protocol: there is no point in listening further
"""

from __future__ import annotations

__all__ = ["DriverError", "DriverGone", "DriverMisbehaved", "DriverRefused"]


class DriverError(Exception):
    """Anything about a driver that a caller may want to handle. Its text is for people.

    `code` is the gRPC status that the call ended with; None if it ended without one.
    """

    def __init__(self, words: str, *, code: int | None = None) -> None:
        super().__init__(words)
        self.code = code


class DriverGone(DriverError):
    """Raised when the call ended, but not the work: the driver is not there, or went away."""


class DriverRefused(DriverError):
    """Raised when the driver answered with an error; a driver raises it itself to fail with these words."""


class DriverMisbehaved(DriverError):
    """Raised when what came is no answer at all."""
