"""The admission chain: every plugin may mutate the object, then every plugin validates the result.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/chain.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/reinvocation.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.observability.admission_metrics import AdmissionMetrics

__all__ = ["Chain"]

Step = Callable[[Operation], Awaitable[None]]


class Chain:
    """Plugins in the order of their calls. The first rejection ends the chain.

    The plugins of a kind of write are determined once, so a write calls only those.
    """

    def __init__(self, plugins: Sequence[AdmissionPlugin] = (), metrics: AdmissionMetrics | None = None) -> None:
        self.plugins = tuple(plugins)
        self._metrics = metrics
        self._routes: dict[tuple[str, str, str, str], tuple[tuple[Step, ...], tuple[Step, ...]]] = {}

    async def admit(self, operation: Operation) -> None:
        """Run the mutating phase; a second round when a webhook changed the object and others may react."""
        await self._take("admit", operation, self._admit)

    async def validate(self, operation: Operation) -> None:
        """Run the validating phase with the final object."""
        await self._take("validate", operation, self._validate)

    async def _take(self, step: str, operation: Operation, take: Step) -> None:
        metrics = self._metrics
        if metrics is None:
            await take(operation)
            return
        began = metrics.now()
        rejected = True
        try:
            await take(operation)
            rejected = False
        finally:
            metrics.step(began, step, operation.operation, rejected=rejected)

    async def _admit(self, operation: Operation) -> None:
        steps = self._route(operation)[0]
        for step in steps:
            await step(operation)
        again = operation.reinvocation
        if again is not None and again.wanted:
            again.round = 1
            for step in steps:
                await step(operation)

    async def _validate(self, operation: Operation) -> None:
        for step in self._route(operation)[1]:
            await step(operation)

    def _route(self, operation: Operation) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        resource = operation.resource
        key = (operation.operation, resource.group, resource.plural, operation.subresource)
        route = self._routes.get(key)
        if route is None:
            interested = [plugin for plugin in self.plugins if plugin.handles(*key)]
            route = self._routes[key] = (
                tuple(p.admit for p in interested if type(p).admit is not AdmissionPlugin.admit),
                tuple(p.validate for p in interested if type(p).validate is not AdmissionPlugin.validate),
            )
        return route
