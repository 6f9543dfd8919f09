"""Which rules belong to which built-in resource. What is not named here follows the general ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from fairlead.apiserver.registry.strategy import Strategy

__all__ = ["strategy_for"]


class _Stored(Strategy):
    """Kinds that the server only keeps: no status of their own, nothing counted."""


class _WithStatus(Strategy):
    """Kinds with a status that only its subresource writes."""

    has_status: ClassVar[bool] = True


_OWN: Mapping[tuple[str, str], Callable[[], Strategy]] = {}


def strategy_for(group: str, plural: str, *, has_status: bool) -> Strategy:
    """The rules of one resource."""
    own = _OWN.get((group, plural))
    if own is not None:
        return own()
    return _WithStatus() if has_status else _Stored()
