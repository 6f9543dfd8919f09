"""Errors of calls to a driver.

DriverError
├── DriverGone          the driver is not reachable, or the connection broke: the caller may retry
├── DriverRefused       the driver answered with an error: the event fails with its message
└── DriverMisbehaved    the driver violated the protocol: the caller ends the call
"""

from __future__ import annotations

__all__ = ["DriverError", "DriverGone", "DriverMisbehaved", "DriverRefused"]


class DriverError(Exception):
    """The base of all errors of a call to a driver. Its message is written for users.

    `code` is the gRPC status that the call ended with; None if it ended without one.
    """

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class DriverGone(DriverError):
    """Raised when the driver is not reachable or the connection broke. The work may have continued."""


class DriverRefused(DriverError):
    """Raised when the driver answered with an error. A driver raises it to fail the event with this message."""


class DriverMisbehaved(DriverError):
    """Raised when the driver's answer violates the protocol."""
