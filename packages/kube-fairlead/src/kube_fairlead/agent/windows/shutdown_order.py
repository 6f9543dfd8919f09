"""The order in which Windows notifies services of a shutdown: a list of names. Pure.

Windows notifies the services on the list in order, each after the previous one has stopped, and then all others. A
service that needs another one, as the agent needs the container runtime, must be notified before that one. A service
that waits for another one, as the agent waits for a kubelet that terminates pods, must be notified after that one: a
kubelet later in the list is not notified before the agent has stopped.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager_windows.go
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["placed"]


def placed(
    service: str, order: Sequence[str], *, needs: Sequence[str] = (), after: str = "", before: str = ""
) -> list[str]:
    """Return the order with the service in its place; all services that it needs are added to the list.

    `after` is notified first: the service is placed directly after it, and a missing `after` is added before `needs`.
    Without `after`, the service is placed before the first of `needs` and, if listed, `before`. The other names keep
    their order. Names are compared without case, as in Windows.
    """
    if not after and not needs and not _has(order, before):
        return list(order)
    names = [name for name in order if name.casefold() != service.casefold()]
    for name in needs:
        if not _has(names, name):
            names.append(name)
    if after and not _has(names, after):
        if not needs:
            return names  # neither is listed: Windows notifies both together, after all others
        names.insert(_first(names, needs), after)
    place = _first(names, [after]) + 1 if after else _first(names, [*needs, before])
    names.insert(place, service)
    return names


def _has(names: Sequence[str], name: str) -> bool:
    return name.casefold() in {one.casefold() for one in names}


def _first(names: Sequence[str], wanted: Sequence[str]) -> int:
    folded = {name.casefold() for name in wanted}
    return next(index for index, name in enumerate(names) if name.casefold() in folded)
