"""Node ports of services: which each port of a service gets, as kube-apiserver gives them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from fairlead.api import errors
from fairlead.api.fielderrors import FieldError, FieldPath

__all__ = ["give_ports", "node_ports"]

Json = dict[str, Any]

_RANGE = range(30000, 32768)
_SPEC = FieldPath("spec")


def node_ports(spec: Json) -> Iterator[int]:
    """Every node port that a service holds."""
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


def give_ports(spec: Json, before: Json, taken: Collection[int], promised: Collection[int]) -> FieldError | None:
    """Fill in the node ports that are missing.

    Args:
        spec: of the service as it will be; changed in place.
        before: its spec until now, empty when it is new.
        taken: what other services hold.
        promised: what must not be given either, though it may be asked for by number.

    Returns:
        What is wrong with a port that was asked for by number.
    """
    _keep_ports(spec, before)
    held = set(node_ports(before))
    unavailable = {*taken, *held, *node_ports(spec), *promised}

    def next_free() -> int:
        number = next((free for free in _RANGE if free not in unavailable), None)
        if number is None:
            raise errors.InternalError("failed to allocate a nodePort: range is full")
        unavailable.add(number)
        return number

    problem = _give_to_ports(spec, before, held, taken, next_free)
    if problem is None and _is_health_checked(spec):
        if not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = before.get("healthCheckNodePort") or next_free()
        elif spec["healthCheckNodePort"] not in held and spec["healthCheckNodePort"] in taken:
            raise errors.InternalError(
                f"failed to allocate requested HealthCheck NodePort {spec['healthCheckNodePort']}: "
                "provided port is already allocated"
            )
    return problem


def _keep_ports(spec: Json, before: Json) -> None:
    """An update that leaves node ports out keeps those of the same ports, unless they are asked for elsewhere."""
    kept = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()}
    asked = set(node_ports(spec))
    for port in spec.get("ports") or ():
        number = kept.get((port.get("protocol"), port.get("port")))
        if number and not port.get("nodePort") and number not in asked:
            port["nodePort"] = number


def _give_to_ports(
    spec: Json, before: Json, held: Collection[int], taken: Collection[int], next_free: Callable[[], int]
) -> FieldError | None:
    gives = spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
    ports = spec.get("ports") or []
    shared: dict[Any, int] = {}  # in a new service TCP and UDP of one port share a node port
    for index, port in enumerate(ports):
        if not port.get("nodePort") and not gives:
            continue
        if not port.get("nodePort") and not before:
            asked = next((p["nodePort"] for p in ports if p.get("port") == port.get("port") and p.get("nodePort")), 0)
            port["nodePort"] = shared.get(port.get("port")) or asked or next_free()
        number = port["nodePort"] = port.get("nodePort") or next_free()
        shared.setdefault(port.get("port"), number)
        at = _SPEC.child("ports").index(index).child("nodePort")
        if number not in held and number in taken:
            return FieldError.invalid(at, number, "provided port is already allocated")
        if number not in held and number not in _RANGE:
            limits = f"{_RANGE.start}-{_RANGE.stop - 1}"
            return FieldError.invalid(
                at, number, f"provided port is not in the valid range. The range of valid ports is {limits}"
            )
    return None


def _is_health_checked(spec: Json) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
