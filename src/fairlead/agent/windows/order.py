"""The order in which services hear that the machine goes down: a list of names. Pure.

Those on the list hear it one after the other, everybody else afterwards. A service that needs another to do its work,
as we need the container runtime, must hear it before that one goes away.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["placed_before"]


def placed_before(service: str, dependencies: Sequence[str], order: Sequence[str]) -> list[str]:
    """The order with the service right before the first of its dependencies, and all of those in the list.

    The names that are there stay in their order; without dependencies nothing changes. Windows does not tell names
    apart by case, and neither does this.
    """
    if not dependencies:
        return list(order)
    placed = [name for name in order if name.casefold() != service.casefold()]
    listed = {name.casefold() for name in placed}
    for name in dependencies:
        if name.casefold() not in listed:
            listed.add(name.casefold())
            placed.append(name)
    needed = {name.casefold() for name in dependencies}
    first = next(index for index, name in enumerate(placed) if name.casefold() in needed)
    placed.insert(first, service)
    return placed
