"""Resolves the address of a webhook's service: its ready endpoints, else its cluster IP.

Upstream: k8s.io/apiserver@v0.36.4/pkg/util/proxy/proxy.go,
    k8s.io/apiserver@v0.36.4/pkg/util/proxy/endpointslice.go
"""

from __future__ import annotations

from kube_fairlead.api import golang, selectors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.object_reader import ObjectReader
from kube_fairlead_apiserver.admission.webhooks.sender import SendFailed
from kube_fairlead_apiserver.storage.selection import Selection

__all__ = ["StoredServices"]


class StoredServices:
    """Resolves services from what is stored.

    Endpoints come first: they can be reached without a kube-proxy on this machine. A service of type ExternalName is
    its external name, so `localhost` names a webhook beside the server.
    """

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects

    def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """Return a host and port to connect to."""
        service = self._objects.find("", "v1", "services", namespace, name)
        if service is None:
            raise SendFailed(f"service {golang.quote(name)} not found")
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return spec.get("externalName", ""), port
        ports = [one for one in spec.get("ports") or () if one.get("port") == port]
        if not ports:
            raise SendFailed(f"no service port {port} found for service {golang.quote(name)}")
        address = self._endpoint(namespace, name, ports[0].get("name") or "")
        if address is not None:
            return address
        if spec.get("clusterIP") in {None, "", "None"}:
            raise SendFailed(f"no endpoints available for service {golang.quote(name)}")
        return spec["clusterIP"], port

    def _endpoint(self, namespace: str, service: str, port_name: str) -> tuple[str, int] | None:
        slices = self._objects.catalog.get("discovery.k8s.io", "v1", "endpointslices")
        if slices is None:
            return None
        owned = selectors.label_selector_from({"matchLabels": {"kubernetes.io/service-name": service}})
        for one in self._objects.list(slices, Selection(namespace=namespace, labels=owned)):
            port = next((p["port"] for p in one.get("ports") or () if (p.get("name") or "") == port_name), None)
            ready = next((e for e in one.get("endpoints") or () if _is_ready(e)), None)
            if port is not None and ready is not None:
                return ready["addresses"][0], port
        return None


def _is_ready(endpoint: Json) -> bool:
    return bool(endpoint.get("addresses")) and (endpoint.get("conditions") or {}).get("ready") is not False
