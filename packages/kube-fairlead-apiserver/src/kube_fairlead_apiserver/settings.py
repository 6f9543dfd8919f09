"""The server's settings. Cheap to import, so that an invalid setting is rejected before anything is loaded.

Upstream: k8s.io/apiserver@v0.36.4/pkg/server/config.go,
    k8s.io/kubernetes@v1.36.4/cmd/kube-controller-manager/names/controller_names.go
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from kube_fairlead.api import reserved
from kube_fairlead.base.gates import SPECIALIZED_LIFECYCLE_MANAGEMENT, FeatureGates

__all__ = [
    "COMPACTION_SECONDS",
    "CONTROLLERS",
    "MAX_MUTATING_REQUESTS_INFLIGHT",
    "MAX_REQUESTS_INFLIGHT",
    "REQUEST_QUEUE_SECONDS",
    "Settings",
    "SettingsError",
]

COMPACTION_SECONDS = 300
# As kube-apiserver's.
MAX_REQUESTS_INFLIGHT = 400
MAX_MUTATING_REQUESTS_INFLIGHT = 200
REQUEST_QUEUE_SECONDS = 5
# The controllers that can be switched off, by the names that kube-controller-manager gives them.
CONTROLLERS = (
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "garbage-collector-controller",
    "disruption-controller",
    "validatingadmissionpolicy-status-controller",
)


class Settings(msgspec.Struct, frozen=True):
    """The settings of one server, as its flags give them."""

    data_folder: Path
    bind_address: str = "127.0.0.1"
    port: int = 6443
    kubeconfig_out: Path | None = None
    client_ca_file: Path | None = None
    token_auth_file: Path | None = None
    audit_log_path: str = ""
    share_port: bool = False
    in_memory: bool = False
    extra_names: Sequence[str] = ()
    gates: FeatureGates | None = None
    controllers: Sequence[str] = ("*",)  # as kube-controller-manager's flag: names, -names, * for all
    compaction_seconds: float = COMPACTION_SECONDS
    accept_loss_since: int | None = None  # a revision: acknowledged writes after it may be lost
    share_between_users: bool = True  # fair scheduling between users, and the limits below
    max_requests_inflight: int = MAX_REQUESTS_INFLIGHT  # 0: no limit
    max_mutating_requests_inflight: int = MAX_MUTATING_REQUESTS_INFLIGHT
    request_queue_seconds: float = REQUEST_QUEUE_SECONDS

    lifecycle_group: str = reserved.LIFECYCLE_GROUP

    def served_lifecycle_group(self) -> str:
        """Return the group of the lifecycle kinds; empty when their gate is off. Stored objects stay in both cases."""
        on = self.gates is None or self.gates.enabled(SPECIALIZED_LIFECYCLE_MANAGEMENT)
        return self.lifecycle_group if on else ""

    def check(self) -> None:
        """Reject settings that would have no effect."""
        known = ("*", "none", *CONTROLLERS)
        for name in self.controllers:
            if name.removeprefix("-") not in known:
                raise SettingsError(f"--controllers: {name!r} is not one of {', '.join(known)}")
        groups = (reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE)
        if self.lifecycle_group not in groups:
            raise SettingsError(f"--lifecycle-api-group: {self.lifecycle_group!r} is not one of {', '.join(groups)}")
        if self.data_folder.exists() and not self.data_folder.is_dir():
            raise SettingsError(f"--data-dir: {self.data_folder} is a file; name a folder")
        if self.in_memory and self.accept_loss_since is not None:
            raise SettingsError("--accept-data-loss-since: a server with --in-memory reads no data; name one of both")
        if self.kubeconfig_out is not None and self.kubeconfig_out.is_dir():
            raise SettingsError(f"--kubeconfig-out: {self.kubeconfig_out} is a folder; name a file")

    def runs_controller(self, name: str) -> bool:
        """Return whether a controller runs: it is named, or `*` is and it is not excluded."""
        if f"-{name}" in self.controllers:
            return False
        return name in self.controllers or "*" in self.controllers


class SettingsError(ValueError):
    """An invalid setting; the message names its flag."""
