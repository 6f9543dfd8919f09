"""Allocates cluster IPs and node ports of services.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/storage/alloc.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/storage/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/ipallocator/interfaces.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/ipallocator/ipallocator.go
"""

from __future__ import annotations

import collections
import ipaddress
import itertools
from collections.abc import Iterator

from kube_fairlead.api import errors, names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.builtin.service_ports import give_ports, node_ports
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.admission.object_reader import ObjectReader

__all__ = ["ServiceAddresses"]


class ServiceAddresses(AdmissionPlugin):
    """Sets clusterIP and nodePort. Nothing routes to them here, but clients expect them."""

    def __init__(self, objects: ObjectReader, network: str) -> None:
        self._objects = objects
        self._network = ipaddress.ip_network(network)
        # Allocated to services that are not durable yet.
        self._given: collections.deque[str] = collections.deque(maxlen=64)
        self._given_ports: collections.deque[int] = collections.deque(maxlen=64)

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Services that are created or changed."""
        return (group, plural, subresource) == ("", "services", "") and operation in {"CREATE", "UPDATE"}

    async def admit(self, operation: Operation) -> None:
        """Allocate what is missing; reject what is taken."""
        obj = operation.obj
        if obj is None:
            return
        spec = obj.setdefault("spec", {})
        before = (operation.old or {}).get("spec") or {}
        if spec.get("type") == "ExternalName":
            return
        self._give_address(obj, spec, before)
        if spec.get("type") in {"NodePort", "LoadBalancer"}:
            self._give_ports(operation, spec, before)

    def _give_address(self, obj: Json, spec: Json, before: Json) -> None:
        wanted = spec.get("clusterIP")
        if not wanted:
            wanted = spec["clusterIP"] = self._free_address()
        elif wanted not in {"None", before.get("clusterIP")}:
            self._check_address(obj, wanted)
        if not spec.get("clusterIPs"):
            spec["clusterIPs"] = [wanted]

    def _free_address(self) -> str:
        taken = {spec.get("clusterIP") for spec in self._specs()} | set(self._given)
        # The first is the network itself, the second belongs to the server's own service.
        for address in itertools.islice(self._network.hosts(), 1, None):
            if str(address) not in taken:
                self._given.append(str(address))
                return str(address)
        raise errors.internal_error("failed to allocate a serviceIP: range is full")

    def _check_address(self, obj: Json, wanted: str) -> None:
        path = FieldPath("spec").child("clusterIPs")
        problem = None
        try:
            inside = ipaddress.ip_address(wanted) in self._network
        except ValueError:
            problem = FieldError.invalid(path.index(0), wanted, names.ip_address(wanted)[0])
        else:
            if not inside:
                problem = FieldError.invalid(
                    path,
                    [wanted],
                    f"failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid range",
                )
            elif any(spec.get("clusterIP") == wanted for spec in self._specs()):
                problem = FieldError.invalid(
                    path, [wanted], f"failed to allocate IP {wanted}: provided IP is already allocated"
                )
        if problem is not None:
            raise errors.invalid(_kind(), obj["metadata"].get("name") or "", [problem])

    def _give_ports(self, operation: Operation, spec: Json, before: Json) -> None:
        own = operation.name, operation.namespace
        taken = {
            number
            for service in self._services()
            if (service["metadata"].get("name"), service["metadata"].get("namespace")) != own
            for number in node_ports(service.get("spec") or {})
        }
        problem = give_ports(spec, before, taken, self._given_ports)
        if problem is not None:
            raise errors.invalid(_kind(), operation.name, [problem])
        self._given_ports.extend(number for number in node_ports(spec) if number not in set(node_ports(before)))

    def _services(self) -> Iterator[Json]:
        services = self._objects.catalog.get("", "v1", "services")
        if services is not None:
            yield from self._objects.list(services)

    def _specs(self) -> Iterator[Json]:
        for service in self._services():
            yield service.get("spec") or {}


def _kind() -> GroupKind:
    return GroupKind("", "Service")
