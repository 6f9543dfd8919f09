"""The namespace of the nodes' Leases."""

from __future__ import annotations

from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Namespace
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import retry_watch
from kube_fairlead.client.client import Client
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.manager.health import OK, Verdict

__all__ = ["LeaseNamespace"]

_RETRY: Final = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=10.0, jitter=0.3)

_log = logs.get_logger(__name__)


class LeaseNamespace:
    """Sees that the namespace is there: creates it where it may, and says so where it may not and it is missing."""

    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._problem = ""

    def verdict(self) -> Verdict:
        """For the page of readiness: without the namespace no Lease is held, and nothing is claimed."""
        return Verdict(is_ok=False, note=self._problem) if self._problem else OK

    async def run(self) -> None:
        """Return when the namespace is there, or when this account may not even look."""
        delays = _RETRY.delays(self._client.randomness)
        while not await self._is_settled():
            await self._client.clock.sleep(next(delays))
        if self._problem:
            _log.info("namespace of the node leases found", namespace=NAMESPACE_NODE_LEASE)
        self._problem = ""

    async def _is_settled(self) -> bool:
        namespaces = self._client.of(Namespace)
        wanted = Namespace(metadata=ObjectMeta(name=NAMESPACE_NODE_LEASE))
        try:
            await namespaces.create(wanted)
        except api_errors.AlreadyExists:
            return True
        except (api_errors.ApiError, client_errors.ClientError) as refusal:
            if retry_watch.is_transient(refusal):
                return False
            try:
                await namespaces.get(NAMESPACE_NODE_LEASE)
            except api_errors.NotFound:
                self._tell(wanted, str(refusal))
                return False
            except (api_errors.ApiError, client_errors.ClientError) as error:
                # An account that may neither create nor read it hears of it when it writes the Lease.
                return not retry_watch.is_transient(error)
        return True

    def _tell(self, wanted: Namespace, refusal: str) -> None:
        if self._problem:
            return
        self._problem = f"namespace {NAMESPACE_NODE_LEASE} is missing and cannot be created: {refusal}"
        _log.error("namespace of the node leases is missing", namespace=NAMESPACE_NODE_LEASE, error=refusal)
        self._recorder.event(wanted, reason="LeaseNamespaceMissing", note=self._problem, type="Warning")
