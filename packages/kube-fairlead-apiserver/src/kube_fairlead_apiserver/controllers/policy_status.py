"""The status of admission policies: type errors of their expressions for the kinds that their rules match.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/validatingadmissionpolicystatus/controller.go
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.storage.entries import Change

__all__ = ["PolicyStatusController"]

_GROUP = "admissionregistration.k8s.io"
_PLURAL = "validatingadmissionpolicies"
_TABLE = f"{_PLURAL}.{_GROUP}"


class PolicyStatusController:
    """Checks each generation of a policy once. Its keys are names of policies."""

    name = "validatingadmissionpolicy-status-controller"

    def __init__(self, core: Core) -> None:
        self._core = core
        self._client = InternalClient(core, self.name)

    def initial(self) -> Iterable[str]:
        """Yield every policy."""
        return list(self._core.store.table(_TABLE).entries)

    def affected(self, table: str, change: Change) -> Iterable[str]:
        """Yield a policy that was created or changed."""
        return (change.last.key,) if table == _TABLE and change.after is not None else ()

    async def reconcile(self, key: str) -> float | None:
        """Write the type-check warnings, unless this generation was checked before."""
        resource = self._client.resource(_GROUP, "v1", _PLURAL)
        policy = self._client.newest(resource, "", key)
        if policy is None or _is_checked(policy):
            return None
        # Imported here, because a server without policies needs no CEL.
        from kube_fairlead_apiserver.admission.policies.type_check import type_warnings

        def write(current: Json) -> None:
            if not _is_checked(current):
                warnings = type_warnings(current, self._core.catalog)
                status = current.setdefault("status", {})
                status["observedGeneration"] = current["metadata"].get("generation", 0)
                status["typeChecking"] = {"expressionWarnings": warnings} if warnings else {}

        with contextlib.suppress(errors.NotFound):
            await self._client.change(resource, "", key, write, subresource="status")
        return None


def _is_checked(policy: Json) -> bool:
    seen = (policy.get("status") or {}).get("observedGeneration", 0)
    return bool(seen >= policy["metadata"].get("generation", 0))
