"""What every process exposes of itself: memory, processor, descriptors, the interpreter and its garbage collector.

The names are those of the client libraries of Prometheus, which dashboards and alerts know. Where there is no /proc,
as on Windows, the `process_*` metrics are missing.
"""

from __future__ import annotations

import functools
import gc
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kube_fairlead.base.metrics import series

__all__ = ["PREFIXES", "exposition"]

PREFIXES: Final = ("process_", "python_")
_SELF: Final = Path("/proc/self")
# Fields of /proc/PID/stat after the name of the command, which may have spaces and parentheses in it.
_USER_TICKS, _SYSTEM_TICKS, _START_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 11, 12, 19, 20, 21
_GENERATIONS: Final = (
    ("collected", "python_gc_objects_collected_total", "Objects collected during gc"),
    ("uncollectable", "python_gc_objects_uncollectable_total", "Uncollectable objects found during GC"),
    ("collections", "python_gc_collections_total", "Number of times this generation was collected"),
)

_Sample = tuple[dict[str, str], float]
_Family = tuple[str, str, str, Sequence[_Sample]]


def exposition() -> str:
    """All of them as scrapers read them."""
    families = (*_times_and_memory(), *_descriptors(), _interpreter(), *_garbage())
    return "".join(series.render(name, kind, text, samples) for name, kind, text, samples in families)


def _times_and_memory() -> Iterator[_Family]:
    try:
        fields = (_SELF / "stat").read_bytes().rpartition(b")")[2].split()
        booted = _boot_time()
    except OSError:
        return
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    used = (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / ticks
    yield _gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", int(fields[_VIRTUAL_BYTES]))
    yield _gauge("process_resident_memory_bytes", "Resident memory size in bytes.", int(fields[_RESIDENT_PAGES]) * page)
    yield _gauge(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds.",
        booted + int(fields[_START_TICKS]) / ticks,
    )
    yield "process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", [({}, used)]


@functools.cache
def _boot_time() -> float:
    lines = Path("/proc/stat").read_bytes().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(b"btime ")))


def _descriptors() -> Iterator[_Family]:
    try:
        limits = (_SELF / "limits").read_bytes().splitlines()
        largest = next(line.split()[3] for line in limits if line.startswith(b"Max open files"))
        used = len(os.listdir(_SELF / "fd"))  # noqa: PTH208 - a Path for each would cost more than the listing
    except (OSError, StopIteration):
        return
    yield _gauge("process_open_fds", "Number of open file descriptors.", used)
    yield _gauge(
        "process_max_fds", "Maximum number of open file descriptors.", float(largest.replace(b"unlimited", b"inf"))
    )


def _interpreter() -> _Family:
    major, minor, patch = platform.python_version_tuple()
    labels = {
        "implementation": platform.python_implementation(),
        "major": major,
        "minor": minor,
        "patchlevel": patch,
        "version": platform.python_version(),
    }
    return "python_info", "gauge", "Python platform information", [(labels, 1)]


def _garbage() -> Iterator[_Family]:
    generations = gc.get_stats()
    for statistic, name, text in _GENERATIONS:
        samples = [({"generation": str(number)}, one[statistic]) for number, one in enumerate(generations)]
        yield name, "counter", text, samples


def _gauge(name: str, text: str, value: float) -> _Family:
    return name, "gauge", text, [({}, value)]
