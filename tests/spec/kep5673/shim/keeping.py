"""A kind whose grace periods are kept: by our server, or by the shim."""

from __future__ import annotations

import dataclasses

from kube_fairlead import grace
from tests.spec.kep5673.objects import Kind
from tests.spec.kep5673.programs import Webhook

__all__ = ["Shimmed"]


@dataclasses.dataclass(frozen=True)
class Shimmed:
    """A kind whose grace periods are kept, one way or the other."""

    kind: Kind
    native: bool
    webhook: Webhook | None

    async def seen(self, name: str) -> grace.Grace | None:
        """What a controller learns from `kube_fairlead.grace`."""
        return grace.read(await self.kind.get(name), native=self.native)

    async def known(self, name: str) -> grace.Grace:
        known = await self.seen(name)
        assert known is not None
        return known
