"""The order in which services hear that the machine goes down: a list of names. Pure.

Windows notifies the services on the list one after the other, each when the one before it has stopped, and every other
service afterwards. A service that needs another to do its work, as the agent needs the container runtime, must hear it
before that one stops. A service that waits for another, as the agent waits for a kubelet that ends the pods itself,
must hear it after that one: a kubelet that comes later is not notified before the agent has stopped.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager_windows.go
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["placed"]


def placed(
    service: str, order: Sequence[str], *, needs: Sequence[str] = (), after: str = "", before: str = ""
) -> list[str]:
    """The order with the service in its place; everything that it needs is in the list then.

    `after` names a service that hears it first: the place is right behind it, and it is put before what is needed when
    it is not listed. Without one the place is right before the first of what is needed and of `before`, where that is
    listed. The other names stay in their order. Windows does not tell names apart by case, and neither does this.
    """
    if not after and not needs and not _has(order, before):
        return list(order)
    names = [name for name in order if name.casefold() != service.casefold()]
    for name in needs:
        if not _has(names, name):
            names.append(name)
    if after and not _has(names, after):
        if not needs:
            return names  # neither is listed: both hear it together, after all the others
        names.insert(_first(names, needs), after)
    place = _first(names, [after]) + 1 if after else _first(names, [*needs, before])
    names.insert(place, service)
    return names


def _has(names: Sequence[str], name: str) -> bool:
    return name.casefold() in {one.casefold() for one in names}


def _first(names: Sequence[str], wanted: Sequence[str]) -> int:
    folded = {name.casefold() for name in wanted}
    return next(index for index, name in enumerate(names) if name.casefold() in folded)
