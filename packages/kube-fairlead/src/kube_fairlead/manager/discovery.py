"""Waiting for the API group of the lifecycle kinds, before anything works on them."""

from __future__ import annotations

from kube_fairlead.api.scheme import Scheme
from kube_fairlead.base import logs
from kube_fairlead.client.client import Client
from kube_fairlead.client.lifecyclegroup import LateScheme, wait_settled
from kube_fairlead.manager.health import Verdict

__all__ = ["GroupDiscovery"]

_log = logs.get_logger(__name__)


class GroupDiscovery:
    """Finds the group in which the API server serves the lifecycle kinds, unless a flag names it.

    Clients that are made with its `scheme` use the group as soon as it is known. `verdict` is a check for `/readyz`.
    """

    check_name = "lifecycle-api-group"

    def __init__(self, group: str = "") -> None:
        self._late = LateScheme()
        self._named = group
        self._problem = "discovery has not started"

    @property
    def scheme(self) -> Scheme:
        """For every client of the process."""
        return Scheme(self._named) if self._named else self._late

    def verdict(self) -> Verdict:
        """Which group it is, or why that is not known."""
        group = self._named or self._late.group
        return Verdict(is_ok=True, note=group) if group else Verdict(is_ok=False, note=self._problem)

    async def settle(self, client: Client) -> None:
        """Wait until the group is known. It waits for an unreachable server and for missing CRDs."""
        if not self._named:
            await wait_settled(client, self._late, self._waits)
            _log.info("lifecycle API group discovered", group=self._late.group)

    def _waits(self, problem: str) -> None:
        if problem != self._problem:
            _log.warning("waiting for the lifecycle API group", reason=problem)
        self._problem = problem
