"""Users who maintain nodes with `kube_fairlead.operations`, as `fairlead maintain` does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final, Protocol

from kube_fairlead import operations
from kube_fairlead.api import errors as api_errors
from kube_fairlead.client import errors, retry
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle.drain.options import PROFILE
from kube_fairlead.lifecycle.drain.rollout import ZONE_LABEL, Limits
from kube_fairlead_lab.sim.environment import Environment

__all__ = ["LIMITS", "Maintainer", "MaintenanceObserver"]

LIMITS: Final = Limits(max_unavailable=2, per_zone=1)
_PATIENCE_SECONDS: Final = 240.0
_REQUEST: Final = operations.MaintenanceRequest(options=PROFILE, limits=LIMITS, min_ready=dt.timedelta(seconds=4))


class MaintenanceObserver(Protocol):
    """Observes what a maintenance does to nodes."""

    def begins(self, node: str, active: Sequence[str], zones: dict[str, str], *, looked_at: float) -> None:
        """A node is about to be taken out of service, beside the active ones. `zones` are those of all nodes."""
        ...

    def returns(self, node: str, *, looked_at: float) -> None:
        """A node is about to be put back into service."""
        ...


class Maintainer:
    """One maintenance of some nodes. `work` is done on each drained node."""

    def __init__(
        self, environment: Environment, client: Client, observer: MaintenanceObserver, work: operations.Work
    ) -> None:
        self._environment = environment
        self._client = client.with_retry(retry.PATIENT)
        self._observer = observer
        self._work = work
        self._zones: dict[str, str] = {}
        self._active: list[str] = []

    async def run(self, names: Sequence[str]) -> None:
        """Maintain these nodes. A maintenance that takes too long is cancelled, as by Ctrl-C."""
        self._environment.trace.add("user", f"maintains {', '.join(names)}")
        try:
            async with self._environment.clock.timeout(_PATIENCE_SECONDS):
                existing = {node.name: node for node in await operations.select_nodes(self._client)}
                nodes = [existing[name] for name in names if name in existing]
                self._zones = {node.name: node.metadata.labels.get(ZONE_LABEL, "") for node in nodes}
                await operations.maintain(self._client, nodes, self._work, _REQUEST, report=self._report)
        except TimeoutError:
            self._environment.trace.add("user", f"interrupts the maintenance of {', '.join(names)}")
        except (operations.RequestFailed, api_errors.ApiError, errors.ClientError) as error:
            self._environment.counts[f"user got {type(error).__name__}"] += 1

    def _report(self, progress: operations.OperationProgress) -> None:
        match progress:
            case operations.Started(node, observed_at):
                self._observer.begins(node, tuple(self._active), self._zones, looked_at=self._monotonic(observed_at))
                self._active.append(node)
            case operations.StageReached(node, operations.MaintenanceStage.UNCORDONING, observed_at):
                self._observer.returns(node, looked_at=self._monotonic(observed_at))
            case operations.Ended(node) if node in self._active:
                self._active.remove(node)
            case _:
                pass

    def _monotonic(self, moment: dt.datetime | None) -> float:
        clock = self._environment.clock
        return clock.monotonic() - (clock.now() - (moment or clock.now())).total_seconds()
