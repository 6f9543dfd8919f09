"""Clouds: machines that exist or not, and an API in front of them that is late, silent or wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fairlead.cloud.errors import CloudError
from fairlead.cloud.provider import Instance, InstanceQuery
from fairlead.cloud.providers.fake import FakeCloud
from fairlead.sim.stage import Stage, Violation

__all__ = ["SimCloud"]


class SimCloud(FakeCloud):
    """A cloud of one platform. It also notices who asks about machines that are not its own."""

    def __init__(self, stage: Stage, platform: str) -> None:
        super().__init__(platform, name=platform)
        self._stage = stage
        self._platform = platform
        self.is_silent = False
        self.is_empty = False

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        """Machines by id, unless it has a bad day."""
        self._judge(query.provider_id for query in queries)
        await self._answer()
        return {} if self.is_empty else await super().describe(queries)

    async def exists(self, provider_id: str) -> bool:
        """Whether there is a machine of this id."""
        self._judge([provider_id])
        await self._answer()
        return await super().exists(provider_id)

    async def _answer(self) -> None:
        await self._stage.clock.sleep(self._stage.chance.uniform(0.01, 1.0))
        self.calls.clear()  # nobody reads them here
        if self.is_silent:
            raise CloudError("the cloud does not answer")

    def _judge(self, provider_ids: Iterable[str]) -> None:
        for provider_id in provider_ids:
            if provider_id and not provider_id.startswith(f"{self._platform}://"):
                self._stage.violate(Violation("8", f"cloud {self.name} was asked about {provider_id}"))
