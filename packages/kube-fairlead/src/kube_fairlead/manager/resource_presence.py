"""Controllers that run only while the resource that they work on is served."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Protocol

from kube_fairlead.api.apiextensions_v1 import CustomResourceDefinition
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer

__all__ = ["Presence", "ServedDefinition", "Switch"]


class Switch:
    """A boolean that can be waited for."""

    def __init__(self, *, is_on: bool = False) -> None:
        self._is_on = is_on
        self._changed = asyncio.Event()

    @property
    def is_on(self) -> bool:
        """What it is now."""
        return self._is_on

    def set(self, *, is_on: bool) -> None:
        """Set it."""
        if is_on is not self._is_on:
            self._is_on = is_on
            self._changed.set()

    async def wait(self, *, is_on: bool) -> None:
        """Wait until it has this value."""
        while self._is_on is not is_on:
            self._changed.clear()
            await self._changed.wait()


class Presence(Protocol):
    """Knows whether a controller has anything to work on."""

    def watched(self, client: Client) -> contextlib.AbstractAsyncContextManager[Switch]:
        """A switch that is kept up to date while the block lasts."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class ServedDefinition:
    """Present while a CustomResourceDefinition is there, established and not on its way out."""

    name: str  # plural.group

    @contextlib.asynccontextmanager
    async def watched(self, client: Client) -> AsyncIterator[Switch]:
        """Follow that one definition."""
        switch = Switch()
        definitions = client.of(CustomResourceDefinition, keep=False)
        informer = Informer(definitions, field_selector=f"metadata.name={self.name}")

        def shown(definition: CustomResourceDefinition) -> None:
            switch.set(is_on=_is_served(definition))

        informer.add_handler(
            Handler(
                on_add=shown,
                on_update=lambda _old, new: shown(new),
                on_delete=lambda _gone: switch.set(is_on=False),
            )
        )
        async with informer.running():
            yield switch


def _is_served(definition: CustomResourceDefinition) -> bool:
    established = any(one.type == "Established" and one.status == "True" for one in definition.status.conditions)
    return established and not definition.deleting
