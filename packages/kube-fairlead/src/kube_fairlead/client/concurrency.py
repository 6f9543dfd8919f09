"""Changing an object that others change too.

Upstream: k8s.io/client-go@v0.36.4/util/retry/util.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kube_fairlead.api import errors as api_errors
from kube_fairlead.base.backoff import Backoff

if TYPE_CHECKING:
    from kube_fairlead.client.verbs import Api

__all__ = ["update_with_retry"]

_T = TypeVar("_T")

# The first retry is nearly immediate: most conflicts are one other writer that is done by then.
_BACKOFF = Backoff(initial_seconds=0.01, factor=3.0, cap_seconds=1.0, jitter=0.5)


async def update_with_retry(
    api: Api[_T],
    name: str,
    mutate: Callable[[_T], _T | None],
    *,
    namespace: str | None = None,
    subresource: str = "",
    attempts: int = 10,
) -> _T:
    """Read an object, change it, write it back; on a conflict read it again and repeat.

    Args:
        api: the verbs of the object's resource.
        name: the object.
        mutate: gives the changed object, which may be the same one changed in place; None means there is nothing to
            change, and nothing is written. It is called once for every attempt, with what is true then.
        namespace: of the object.
        subresource: what is written, e.g. status. The object itself is read all the same.
        attempts: how often to lose before giving up.

    Raises:
        Conflict: another client wrote first at every attempt.
    """
    delays = _BACKOFF.delays(api.client.randomness)
    while True:
        current = await api.get(name, namespace=namespace)
        changed = mutate(current)
        if changed is None:
            return current
        try:
            return await api.update(changed, namespace=namespace, subresource=subresource)
        except api_errors.Conflict:
            if delays.attempts + 1 >= attempts:
                raise
        await api.client.clock.sleep(next(delays))
