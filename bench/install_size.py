"""What `pip install kube-fairlead` brings into an empty environment: packages, and bytes without bytecode."""

from __future__ import annotations

import pathlib
import sys
import tempfile
from collections.abc import Iterator

from bench.harness import Measurement, at_most, benchmark
from tests.wheels.installation import MAX_MEGABYTES, MAX_PACKAGES, Installation, build_wheels


@benchmark("install-size")
def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        wheels = build_wheels(pathlib.Path(folder, "wheels"))
        environment = Installation(pathlib.Path(folder), sys.executable, wheels)
        environment.install("kube-fairlead")
        packages = environment.packages()
    own = packages.pop("kube-fairlead")
    largest = ", ".join(sorted(packages, key=packages.__getitem__, reverse=True)[:3])
    yield Measurement("packages beside kube-fairlead", len(packages), "", at_most(MAX_PACKAGES))
    size = sum(packages.values()) / 1e6
    yield Measurement(
        "their size, without bytecode", size, "MB", at_most(MAX_MEGABYTES), f"own {own / 1e6:.1f}; largest {largest}"
    )
