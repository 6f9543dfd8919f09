"""The default objects of every namespace: the service account `default`, and the CA of this server.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/serviceaccount/serviceaccounts_controller.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/certificates/rootcacertpublisher/publisher.go
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.registry.resource import split_key
from kube_fairlead_apiserver.storage.entries import Change

__all__ = ["NamespaceDefaults", "default_account", "root_ca"]


class NamespaceDefaults:
    """Keeps one object in every active namespace. Its keys are namespace names."""

    def __init__(self, core: Core, name: str, table: str, make: Callable[[], Json]) -> None:
        self.name = name
        self._core = core
        self._client = InternalClient(core, name)
        self._table = table
        self._make = make
        self._kept = make()["metadata"]["name"]

    def initial(self) -> Iterable[str]:
        """Yield every namespace."""
        return list(self._core.store.table("namespaces").entries)

    def affected(self, table: str, change: Change) -> Iterable[str]:
        """Yield a new namespace, or one whose default object was deleted."""
        if table == "namespaces" and change.before is None:
            return (change.last.key,)
        if table == self._table and change.after is None:
            namespace, name = split_key(change.last.key)
            return (namespace,) if name == self._kept else ()
        return ()

    async def reconcile(self, key: str) -> float | None:
        """Create the object if it is missing."""
        namespaces = self._client.resource("", "v1", "namespaces")
        namespace = self._client.newest(namespaces, "", key)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return None
        resource = self._client.resource("", "v1", self._table)
        if self._client.newest(resource, key, self._kept) is None:
            # A namespace that started to terminate meanwhile rejects new objects, and needs none.
            with contextlib.suppress(errors.AlreadyExists, errors.Forbidden, errors.NotFound):
                await self._client.create(resource, self._make(), namespace=key)
        return None


def default_account(core: Core) -> NamespaceDefaults:
    """Return the service account that pods use unless they name another."""

    def make() -> Json:
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}

    return NamespaceDefaults(core, "serviceaccount-controller", "serviceaccounts", make)


def root_ca(core: Core, pem: str) -> NamespaceDefaults:
    """Return the CA with which pods verify the API server."""

    def make() -> Json:
        metadata = {
            "name": "kube-root-ca.crt",
            "annotations": {"kubernetes.io/description": "The CA that signs the API server's certificate."},
        }
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": pem}}

    return NamespaceDefaults(core, "root-ca-certificate-publisher-controller", "configmaps", make)
