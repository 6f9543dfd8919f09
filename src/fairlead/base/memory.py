"""Memory that was freed, and is still this process's."""

from __future__ import annotations

import functools
from collections.abc import Callable

__all__ = ["give_back"]


def give_back() -> None:
    """Return to the system what was freed: glibc keeps it where something in use lies behind it. May do nothing."""
    _trimmer()()


@functools.cache
def _trimmer() -> Callable[[], object]:
    import ctypes  # only servers that had many clients need it

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return lambda: None
    return functools.partial(trim, 0)
