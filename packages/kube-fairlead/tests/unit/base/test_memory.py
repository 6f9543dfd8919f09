"""Memory goes back to the system."""

from __future__ import annotations

import ctypes
import pathlib
import re
import sys

import pytest

from kube_fairlead.base import memory


def resident_bytes() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library than glibc"
)
def test_what_was_freed_is_given_back_though_something_lies_behind_it() -> None:
    pieces = [b"x" * 20_000 for _ in range(5_000)]
    last = b"y" * 20_000
    held = resident_bytes()
    pieces.clear()
    memory.give_back()
    assert resident_bytes() < held - 80_000_000
    assert last


def test_where_it_cannot_be_done_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    memory._trimmer.cache_clear()
    memory.give_back()
    memory._trimmer.cache_clear()
