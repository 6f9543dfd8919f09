"""Runs `fairlead apiserver` as a server from before KEP-5673: the grace of custom resources means nothing to it."""

from __future__ import annotations

import datetime as dt
import sys

from kube_fairlead.cli.main import main
from kube_fairlead.lifecycle import deletion


def as_before(state: deletion.State, requested: int | None, now: dt.datetime) -> deletion.Decision:
    """The rule of every other kind, which was that of custom resources too."""
    del requested
    return deletion.decide_plain(state, now)


if __name__ == "__main__":
    deletion.decide_custom = as_before
    sys.exit(main(sys.argv[1:]))
