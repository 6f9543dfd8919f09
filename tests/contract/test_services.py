"""Services: which addresses and ports they get."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.testing.rawhttp import RawApi

Json = dict[str, Any]


def service(name: str, kind: str, *ports: Json, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": list(ports), **spec}}


def numbers(made: Json) -> list[int]:
    return [port.get("nodePort", 0) for port in made["spec"]["ports"]]


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
async def test_ports_are_given(api: RawApi, namespace: str, kind: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    (await api.post(path, service("plain", "ClusterIP", {"port": 80}))).expect(201)
    first = (await api.post(path, service("a", kind, {"port": 80}))).expect(201)
    second = (await api.post(path, service("b", kind, {"name": "x", "port": 1}, {"name": "y", "port": 2}))).expect(201)
    given = numbers(first) + numbers(second)
    assert len(set(given)) == 3
    assert all(30000 <= number <= 32767 for number in given)
    assert first["spec"]["externalTrafficPolicy"] == "Cluster"
    assert first["spec"].get("allocateLoadBalancerNodePorts") is (True if kind == "LoadBalancer" else None)
    changed = (await api.patch(f"{path}/a", {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}})).expect(200)
    assert numbers(changed) == numbers(first)


async def test_both_protocols_of_a_port_share_a_number(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    ports = [{"name": "tcp", "port": 53, "protocol": "TCP"}, {"name": "udp", "port": 53, "protocol": "UDP"}]
    one, other = numbers((await api.post(path, service("dns", "NodePort", *ports))).expect(201))
    assert one == other


async def test_a_number_is_one_services_own(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    (number,) = numbers((await api.post(path, service("a", "NodePort", {"port": 80}))).expect(201))
    status = (await api.post(path, service("b", "NodePort", {"port": 80, "nodePort": number}))).expect(422)
    assert status["message"] == (
        f'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: {number}: provided port is already allocated'
    )
    status = (await api.post(path, service("b", "NodePort", {"port": 80, "nodePort": 80}))).expect(422)
    assert status["message"] == (
        'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 80: '
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    )
    (await api.delete(f"{path}/a")).expect(200)
    again = (await api.post(path, service("b", "NodePort", {"port": 80, "nodePort": number}))).expect(201)
    assert numbers(again) == [number]


async def test_a_balancer_may_do_without(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    body = service("a", "LoadBalancer", {"port": 80}, allocateLoadBalancerNodePorts=False)
    assert numbers((await api.post(path, body)).expect(201)) == [0]
    local = service("b", "LoadBalancer", {"port": 80}, externalTrafficPolicy="Local")
    made = (await api.post(path, local)).expect(201)
    assert made["spec"]["healthCheckNodePort"] not in {0, *numbers(made)}


async def test_what_only_the_former_type_had(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    made = (await api.post(path, service("a", "NodePort", {"port": 80}))).expect(201)
    made["spec"]["type"] = "ClusterIP"
    plain = (await api.put(f"{path}/a", made)).expect(200)
    assert numbers(plain) == [0]
    assert "externalTrafficPolicy" not in plain["spec"]
    assert plain["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    status = (await api.post(path, service("b", "ClusterIP", {"port": 80, "nodePort": 30100}))).expect(422)
    assert status["details"]["causes"][0]["message"] == "Forbidden: may not be used when `type` is 'ClusterIP'"


async def test_an_update_creates_what_is_not_there(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services/s"
    made = (await api.put(path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).expect(201)
    assert made["spec"]["clusterIP"]
    role = {"metadata": {"name": "r"}, "rules": []}
    (await api.put(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/r", role)).expect(201)


async def test_whoever_uses_endpoints_is_told_of_slices(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/endpoints"
    for answer in (await api.post(path, {"metadata": {"name": "e"}}), await api.get(path), await api.get(f"{path}/e")):
        assert answer.headers["Warning"] == (
            '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
        )
