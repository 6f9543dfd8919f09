"""`python -m bench [NAME...]`: run all benchmarks, or those named. Exit 1 when a bar is missed, 2 for a bad name."""

from __future__ import annotations

import argparse
import functools
import sys

from bench import harness
from kube_fairlead.base.environment import Environment


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Fairlead promises.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; default: all")
    parser.add_argument("--list", action="store_true", help="print the names of benchmarks and exit")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="of apiserver-fairness only the measurements whose name contains this; may be repeated",
    )
    arguments = parser.parse_args()
    harness.want_only(arguments.only)
    known = harness.discover()
    if arguments.list:
        print("\n".join(known))
        return 0
    if unknown := [name for name in arguments.names if name not in known]:
        parser.error(f"unknown benchmark {', '.join(unknown)}; known are {', '.join(known)}")
    chosen = [known[name] for name in arguments.names] or list(known.values())
    must_run = Environment.of_process().flag("FAIRLEAD_REQUIRE_REAL")
    # Lines are printed at once: some benchmarks take minutes.
    return 0 if harness.run(chosen, must_run=must_run, write=functools.partial(print, flush=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
