"""Programs in Go that tests run: built once for what their sources say, and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kube_fairlead.base.environment import Environment
from kube_fairlead_lab.testing import require_real
from kube_fairlead_lab.testing.binaries import cache_folder

_SOURCES = frozenset({".go", ".mod", ".sum"})


def go_program(sources: Path) -> Path:
    """The program that is in this folder; skips, with what would help, where there is no Go."""
    digest = hashlib.sha256()
    for source in sorted(path for path in sources.rglob("*") if path.suffix in _SOURCES):
        digest.update(str(source.relative_to(sources)).encode() + b"\0" + source.read_bytes() + b"\0")
    built = cache_folder(Environment.of_process()) / sources.name / digest.hexdigest()[:16]
    if not built.exists():
        go = shutil.which("go")
        require_real("Go", present=go is not None, remedy="install Go 1.26 or newer (https://go.dev/doc/install)")
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
            target = Path(scratch) / sources.name
            # The flags of hack/kube/build.sh, so that most of it is compiled already.
            command = [str(go), "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", str(target), "."]
            environment = {**os.environ, "CGO_ENABLED": "0"}
            done = subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            target.rename(built)
    return built
