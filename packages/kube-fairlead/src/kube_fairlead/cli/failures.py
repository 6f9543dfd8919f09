"""From an exception to an exit code and one line. Nothing else in the command line decides either.

0 done, 1 failed, 2 bad usage. A failure that we foresaw speaks for itself; any other is our bug and says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

__all__ = ["EXIT_FAILED", "EXIT_USAGE", "exit_code", "report"]

EXIT_FAILED = 1
EXIT_USAGE = 2

# Classes by name, most special first: naming them this way loads none of their modules, and an exception whose
# module was never loaded cannot have been raised.
_API_ERROR = ("kube_fairlead.api.errors", "ApiError")
_FORESEEN: tuple[tuple[str, str, int], ...] = (
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
    """What the process should exit with."""
    failure = next(_leaves(failure))
    if isinstance(failure, click.ClickException):
        return failure.exit_code
    return _foreseen(failure) or EXIT_FAILED


def report(failure: BaseException) -> str:
    """What the user should read: one line, no traceback."""
    first, *others = _leaves(failure)
    # kubectl's words for what the server itself said, so that a user knows whom to ask.
    kind = f"Error from server ({_reason(first)})" if _is(first, *_API_ERROR) else "Error"
    line = f"{kind}: {_one_line(_say(first))}"
    return f"{line} (and {len(others)} more)" if others else line


def _say(failure: BaseException) -> str:
    if isinstance(failure, click.ClickException):
        return failure.format_message()
    if isinstance(failure, OSError):
        return _say_os_error(failure)
    if _foreseen(failure) is None:
        return f"internal error: {type(failure).__name__}: {failure}; --debug shows where"
    return str(failure) or type(failure).__name__


def _say_os_error(failure: OSError) -> str:
    if isinstance(failure, TimeoutError) and not failure.strerror:
        return str(failure) or "timed out"
    reason = failure.strerror or str(failure) or type(failure).__name__
    return f"{failure.filename}: {reason}" if failure.filename else reason


def _foreseen(failure: BaseException) -> int | None:
    return next((code for module, name, code in _FORESEEN if _is(failure, module, name)), None)


def _is(failure: BaseException, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(failure, kind)


def _reason(failure: BaseException) -> str:
    return getattr(failure, "reason", "") or f"code {getattr(failure, 'code', 'unknown')}"


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    # Task groups wrap what failed in them; the user wants to hear of what failed.
    if isinstance(failure, BaseExceptionGroup):
        for inner in failure.exceptions:
            yield from _leaves(inner)
    else:
        yield failure


def _one_line(text: str) -> str:
    return " ".join(text.split())
