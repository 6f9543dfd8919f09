"""Node ports of services, allocated as by kube-apiserver.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/storage/alloc.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/portallocator/operation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/portallocator/allocator.go
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategies.traffic import is_health_checked

__all__ = ["give_ports", "node_ports"]


_RANGE = range(30000, 32768)
_SPEC = FieldPath("spec")
_ALLOCATED = "provided port is already allocated"
_OUT_OF_RANGE = f"provided port is not in the valid range. The range of valid ports is {_RANGE.start}-{_RANGE.stop - 1}"


def node_ports(spec: Json) -> Iterator[int]:
    """Yield every node port that a service holds."""
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


def give_ports(spec: Json, before: Json, taken: Collection[int], promised: Collection[int]) -> FieldError | None:
    """Allocate the missing node ports.

    Args:
        spec: of the service as it will be; changed in place.
        before: its spec until now, empty when it is new.
        taken: node ports of other services.
        promised: not allocated either, but available by number.

    Returns:
        The errors of ports that were requested by number.
    """
    _keep_ports(spec, before)
    held = set(node_ports(before))
    unavailable = {*taken, *held, *node_ports(spec), *promised}

    free = (number for number in _RANGE if number not in unavailable)

    def next_free() -> int:
        number = next(free, None)
        if number is None:
            raise errors.internal_error("failed to allocate a nodePort: range is full")
        return number

    problem = _give_to_ports(spec, before, held, taken, next_free)
    if problem is None and is_health_checked(spec):
        kept = before.get("healthCheckNodePort") if is_health_checked(before) else None
        if not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = kept or next_free()
        elif kept is None:
            _check_asked(spec["healthCheckNodePort"], {*taken, *held, *_of_ports(spec)})
    return problem


def _of_ports(spec: Json) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def _check_asked(number: int, taken: Collection[int]) -> None:
    """Reject a health check port that is not available; Kubernetes returns an internal error."""
    why = _ALLOCATED if number in taken else "" if number in _RANGE else _OUT_OF_RANGE
    if why:
        raise errors.internal_error(f"failed to allocate requested HealthCheck NodePort {number}: {why}")


def _keep_ports(spec: Json, before: Json) -> None:
    """Keep the node ports that an update omits, by the names of the ports, unless another port requests them."""
    if not (_gives_ports(before) and _gives_ports(spec)):
        return
    kept = {port.get("name"): port.get("nodePort") for port in before.get("ports") or ()}
    asked = _of_ports(spec)
    for port in spec.get("ports") or ():
        number = kept.get(port.get("name"))
        if number and not port.get("nodePort") and number not in asked:
            port["nodePort"] = number


def _gives_ports(spec: Json) -> bool:
    """Return whether each port of a service gets a node port by default."""
    return spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _give_to_ports(
    spec: Json, before: Json, held: Collection[int], taken: Collection[int], next_free: Callable[[], int]
) -> FieldError | None:
    gives = _gives_ports(spec)
    ports = spec.get("ports") or []
    shared: dict[Any, int] = {}  # in a new service TCP and UDP of one port share a node port
    asked = {port.get("port"): port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
    for index, port in enumerate(ports):
        if not port.get("nodePort") and not gives:
            continue
        if not port.get("nodePort") and not before:
            number = port.get("port")
            port["nodePort"] = shared.get(number) or asked.get(number) or next_free()
        number = port["nodePort"] = port.get("nodePort") or next_free()
        shared.setdefault(port.get("port"), number)
        at = _SPEC.child("ports").index(index).child("nodePort")
        if number not in held and number in taken:
            return FieldError.invalid(at, number, _ALLOCATED)
        if number not in held and number not in _RANGE:
            return FieldError.invalid(at, number, _OUT_OF_RANGE)
    return None
