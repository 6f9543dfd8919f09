"""A real file system of a few megabytes, for tests that fill it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from kube_fairlead_lab.testing.real import require_real

__all__ = ["fill", "small_disk"]


@contextlib.contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """Mount one on a new folder, which only root can do."""
    may_mount = sys.platform == "linux" and os.geteuid() == 0
    require_real("a file system of its own size", present=may_mount, remedy="run the test as root on Linux")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, check=False, capture_output=True, text=True)
    require_real("the right to mount", present=mounted.returncode == 0, remedy=mounted.stderr.strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, *, leave: int = 0) -> Path:
    """Take what is left of a disk; remove the file to give it back."""
    ballast = folder / "ballast"
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    if leave:
        os.truncate(ballast, max(0, ballast.stat().st_size - leave))
    return ballast
