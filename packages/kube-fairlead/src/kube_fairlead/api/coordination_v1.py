"""coordination.k8s.io/v1: Leases, by which processes agree on who leads.

Upstream: k8s.io/api@v0.36.4/coordination/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import MicroTime, Part, always

__all__ = ["Lease", "LeaseSpec"]


class LeaseSpec(Part):
    """Who holds the lease and since when; an empty or missing holder means it was released."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(KubeObject):
    """A lock that expires."""

    api_version: str = always("coordination.k8s.io/v1")
    kind: str = always("Lease")
    spec: LeaseSpec = LeaseSpec()
