"""An operator as people write them, for `kopf run`: a retry, a timer, a daemon and a last word.

It works with Widgets of the group that WIDGET_GROUP names, and tells what it does on standard output.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import kopf

GROUP = os.environ["WIDGET_GROUP"]


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.persistence.progress_storage = kopf.StatusProgressStorage()
    settings.networking.error_backoffs = [0.1] * 100


@kopf.on.create(GROUP, "v1", "widgets")
def create(retry: int, **_: Any) -> dict[str, int]:
    if retry == 0:
        raise kopf.TemporaryError("not yet", delay=0.1)
    return {"retries": retry}


@kopf.on.resume(GROUP, "v1", "widgets")
def resume(name: str, **_: Any) -> None:
    tell("resumed", name)


@kopf.timer(GROUP, "v1", "widgets", interval=0.2)
def count(patch: kopf.Patch, status: kopf.Status, **_: Any) -> None:
    ticks = status.get("ticks", 0)
    if ticks < 3:
        patch.status["ticks"] = ticks + 1


@kopf.daemon(GROUP, "v1", "widgets", cancellation_timeout=5)
async def attend(name: str, stopped: kopf.DaemonStopped, **_: Any) -> None:
    tell("attended", name)
    await stopped.wait()
    tell("left", name)


@kopf.on.delete(GROUP, "v1", "widgets")
def delete(name: str, **_: Any) -> None:
    tell("deleted", name)


def tell(what: str, name: str) -> None:
    # In one piece: handlers run in threads, and the pieces of two prints would share a line.
    sys.stdout.write(f"{what} {name}\n")
    sys.stdout.flush()
