"""Configuration for a process that runs in a pod: the service account that Kubernetes mounts into it.

Upstream: k8s.io/client-go@v0.36.4/rest/config.go
"""

from __future__ import annotations

import pathlib

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import credentials, errors
from kube_fairlead.client.server_access import Access

__all__ = ["SERVICE_ACCOUNT_FOLDER", "is_in_cluster", "load"]

SERVICE_ACCOUNT_FOLDER = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environment: Environment, folder: pathlib.Path = SERVICE_ACCOUNT_FOLDER) -> bool:
    """Whether this looks like a pod with a service account."""
    return environment.get("KUBERNETES_SERVICE_HOST") is not None and (folder / "token").exists()


def load(environment: Environment, clock: Clock, folder: pathlib.Path = SERVICE_ACCOUNT_FOLDER) -> Access:
    """Describe the cluster that this pod runs in.

    Raises:
        InClusterError: this is no pod, or its service account is not mounted.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST")
    port = environment.get("KUBERNETES_SERVICE_PORT")
    if host is None or port is None:
        raise errors.InClusterError(
            "not running in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set"
        )
    token_file = folder / "token"
    if not token_file.exists():
        raise errors.InClusterError(
            f"no service account token at {token_file}: automountServiceAccountToken must not be false"
        )
    authority = folder / "ca.crt"
    namespace = folder / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        certificate_authority_file=authority if authority.exists() else None,
        credentials=credentials.FileCredentials(clock, token_file=token_file),
    )
