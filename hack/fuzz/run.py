"""Run one target of tests/fuzz under a coverage-guided fuzzer for some seconds.

Usage: run.py TARGET SECONDS. A finding is written to a file `crash-...` in the current folder.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile

import atheris

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

with atheris.instrument_imports(include=["kube_fairlead", "kube_fairlead_apiserver"]):
    from tests.fuzz.targets import SEEDS, TARGETS


def main() -> None:
    name, seconds = sys.argv[1:]
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(SEEDS):
            (pathlib.Path(corpus) / str(number)).write_bytes(seed)
        options = [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-verbosity=0"]
        atheris.Setup([sys.argv[0], *options, corpus], TARGETS[name])
        atheris.Fuzz()


main()
