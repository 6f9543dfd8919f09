"""The entry point of the `fairlead` program, and of `python -m kube_fairlead.cli`."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]


def main() -> int:
    """Load the program and run it."""
    gc.disable()  # imports create hardly any garbage; `main` enables the collector when the command is loaded
    from kube_fairlead.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
