"""A countdown that watches its object for later deletes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TypeVar

from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.objects import name_of, namespace_of, uid_of
from kube_fairlead.client.verbs import Api
from kube_fairlead.grace import grace_period
from kube_fairlead.grace.countdown import Countdown

__all__ = ["follow"]

_T = TypeVar("_T", bound=grace_period.Object)


@contextlib.asynccontextmanager
async def follow(
    api: Api[_T], item: _T, *, native: bool = False, default_seconds: float | None = None
) -> AsyncIterator[Countdown]:
    """Watch one object for as long as the block lasts; the countdown knows what the server knows.

    For a controller that has an informer already, feeding a `Countdown` from it is cheaper: this opens a watch.

    Args:
        api: the verbs of the object's resource.
        item: the object as the controller saw it.
        native: the API server is known to honour grace periods (`is_native`).
        default_seconds: applies when no request set a deadline; None means no deadline.
    """
    countdown = Countdown(api.client.clock, item, native=native, default_seconds=default_seconds)

    def seen(now: _T) -> None:
        # Another object of the same name means that this one has gone.
        if uid_of(now) == uid_of(item):
            countdown.update(now)
        else:
            countdown.gone()

    informer = Informer(api, namespace=namespace_of(item) or None, field_selector=f"metadata.name={name_of(item)}")
    informer.add_handler(
        Handler(on_add=seen, on_update=lambda _old, new: seen(new), on_delete=lambda _last: countdown.gone())
    )

    async def notice_absence() -> None:
        await informer.wait_synced()
        if not len(informer.store):
            countdown.gone()

    async with TaskScope("grace", on_exit=OnExit.CANCEL) as scope:
        scope.start(informer.run(), name=f"follow {name_of(item)}")
        scope.start(notice_absence(), name=f"look for {name_of(item)}")
        yield countdown
