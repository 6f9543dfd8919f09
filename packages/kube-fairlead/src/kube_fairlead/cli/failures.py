"""From an exception to one line on standard error and an exit code. Only this module decides both.

Exit codes: 0 success, 1 failure, 2 usage error. An expected failure prints its own message. Any other exception is a
bug in Fairlead and is reported as an internal error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

__all__ = ["EXIT_FAILED", "EXIT_USAGE", "exit_code", "report"]

EXIT_FAILED = 1
EXIT_USAGE = 2

# Classes by name, most specific first. Their modules are not imported: an exception whose module is not loaded cannot
# have been raised.
_API_ERROR = ("kube_fairlead.api.errors", "ApiError")
_EXPECTED: tuple[tuple[str, str, int], ...] = (
    ("kube_fairlead.base.gates", "GateError", EXIT_USAGE),
    (*_API_ERROR, EXIT_FAILED),
    ("kube_fairlead.client.errors", "ClientError", EXIT_FAILED),
    ("kube_fairlead.client.lifecyclegroup", "GroupUnknown", EXIT_FAILED),
    ("kube_fairlead.operations.event_requests", "RequestFailed", EXIT_FAILED),
    ("kube_fairlead.election.errors", "ElectionError", EXIT_FAILED),
    ("kube_fairlead_apiserver.storage.interface", "StorageError", EXIT_FAILED),
    ("kube_fairlead_apiserver.settings", "SettingsError", EXIT_USAGE),
    ("kube_fairlead_apiserver.security.pki.credentials", "PkiError", EXIT_FAILED),
    ("kube_fairlead_apiserver.security.authentication", "TokenFileError", EXIT_USAGE),
    ("builtins", "OSError", EXIT_FAILED),
)


def exit_code(failure: BaseException) -> int:
    """The exit code of the process."""
    failure = next(_leaves(failure))
    if isinstance(failure, click.ClickException):
        return failure.exit_code
    return _expected_code(failure) or EXIT_FAILED


def report(failure: BaseException) -> str:
    """The message for the user: one line, no traceback."""
    first, *others = _leaves(failure)
    # kubectl's words for an error of the API server, so that a user knows where the error comes from.
    kind = f"Error from server ({_reason(first)})" if _is(first, *_API_ERROR) else "Error"
    line = f"{kind}: {_one_line(_message(first))}"
    return f"{line} (and {len(others)} more)" if others else line


def _message(failure: BaseException) -> str:
    if isinstance(failure, click.ClickException):
        return failure.format_message()
    if isinstance(failure, OSError):
        return _os_error_message(failure)
    if _expected_code(failure) is None:
        return f"internal error: {type(failure).__name__}: {failure}; --debug prints the traceback"
    return str(failure) or type(failure).__name__


def _os_error_message(failure: OSError) -> str:
    if isinstance(failure, TimeoutError) and not failure.strerror:
        return str(failure) or "timed out"
    reason = failure.strerror or str(failure) or type(failure).__name__
    return f"{failure.filename}: {reason}" if failure.filename else reason


def _expected_code(failure: BaseException) -> int | None:
    return next((code for module, name, code in _EXPECTED if _is(failure, module, name)), None)


def _is(failure: BaseException, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(failure, kind)


def _reason(failure: BaseException) -> str:
    return getattr(failure, "reason", "") or f"code {getattr(failure, 'code', 'unknown')}"


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    # A task group wraps the exceptions of its tasks; the user needs the exceptions themselves.
    if isinstance(failure, BaseExceptionGroup):
        for inner in failure.exceptions:
            yield from _leaves(inner)
    else:
        yield failure


def _one_line(text: str) -> str:
    return " ".join(text.split())
