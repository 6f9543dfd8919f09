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
    """Creates the namespace, or reports that it is missing and cannot be created."""

    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._problem = ""

    def verdict(self) -> Verdict:
        """Return the readiness: without the namespace the claimant holds no Lease and claims nothing."""
        return Verdict(is_ok=False, note=self._problem) if self._problem else OK

    async def run(self) -> None:
        """Return when the namespace exists, or when this account may neither create nor read it."""
        delays = _RETRY.delays(self._client.randomness)
        while not await self._exists_or_unknown():
            await self._client.clock.sleep(next(delays))
        if self._problem:
            _log.info("Lease namespace found", namespace=NAMESPACE_NODE_LEASE)
        self._problem = ""

    async def _exists_or_unknown(self) -> bool:
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
                self._record_missing(wanted, str(refusal))
                return False
            except (api_errors.ApiError, client_errors.ClientError) as error:
                # Without the right to read it, a missing namespace is reported by the write of the Lease.
                return not retry_watch.is_transient(error)
        return True

    def _record_missing(self, wanted: Namespace, refusal: str) -> None:
        if self._problem:
            return
        self._problem = f"namespace {NAMESPACE_NODE_LEASE} is missing and cannot be created: {refusal}"
        _log.error("Lease namespace missing", namespace=NAMESPACE_NODE_LEASE, error=refusal)
        self._recorder.event(wanted, reason="LeaseNamespaceMissing", note=self._problem, type="Warning")
