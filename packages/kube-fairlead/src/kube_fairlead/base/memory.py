"""Memory that is no longer used, and is still this process's."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable

__all__ = ["give_back", "is_due"]

# Collections of the middle generation since the last one of all objects. Each looks at some 20,000 new objects.
_DUE = 500


def is_due() -> bool:
    """Whether enough objects were created since the last full collection that much memory may be free."""
    return gc.get_count()[2] >= _DUE


def give_back() -> None:
    """Return to the system what is not used: cycles of objects first, then what glibc keeps of what was freed.

    It takes some milliseconds, and nothing else runs meanwhile.
    """
    gc.collect()
    _trimmer()()


@functools.cache
def _trimmer() -> Callable[[], object]:
    import ctypes  # only servers that had many clients need it

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return lambda: None
    return functools.partial(trim, 0)
