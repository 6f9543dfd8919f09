"""The program's beginning, and `python -m kube_fairlead.cli` where scripts are not on the path."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]


def main() -> int:
    """Load the program and run it."""
    gc.disable()  # loading leaves no garbage behind; it is on again as soon as the command is there
    from kube_fairlead.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
