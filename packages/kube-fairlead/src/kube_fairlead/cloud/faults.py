"""What a provider raises, put into the words that were agreed on: a plug-in can raise anything."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator

from kube_fairlead.cloud.errors import CloudError, NotReadyYet, ProviderFault

__all__ = ["faults_of"]

# Of messages that a provider's exceptions carry: they end up in logs and Events.
_WORDS = 500


@contextlib.contextmanager
def faults_of(name: str) -> Iterator[None]:
    """A block that calls a provider. What comes out of it is a CloudError, or a cancellation from outside.

    KeyboardInterrupt is a person's, not the provider's, and stays what it is.

    Raises:
        CloudError: the provider raised it.
        ProviderFault: the provider raised something else.
    """
    try:
        yield
    except CloudError as error:
        if fault := _unusable(name, error):
            raise fault from None
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # A task of the provider's own was cancelled, and the provider waited for it.
        raise ProviderFault(f"{name}() was cancelled from within") from error
    except (Exception, SystemExit, BaseExceptionGroup) as error:
        raise ProviderFault(f"{name}() raised {_words(error)}") from error


def _unusable(name: str, error: CloudError) -> ProviderFault | None:
    """What is wrong with an error itself: it needs a text, and may set a retry time."""
    try:
        str(error)
    except Exception:  # noqa: BLE001 - whatever a plug-in's error does when it is printed
        return ProviderFault(f"{name}() raised {type(error).__name__}, which cannot be printed")
    if isinstance(error, NotReadyYet):
        after: object = error.retry_after_seconds
        if isinstance(after, bool) or not isinstance(after, int | float) or not 0 <= after < math.inf:
            return ProviderFault(f"{name}() sets an invalid retry time of {after!r} seconds: {error}")
    return None


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_WORDS]
    except Exception:  # noqa: BLE001 - see above
        return f"{type(error).__name__}, which cannot be printed"
