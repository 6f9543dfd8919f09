"""Services: which addresses and ports they get."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Refused

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


async def test_where_a_balancer_asks_for_healthy_nodes(api: RawApi, namespace: str, refused: Refused) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    local = {"externalTrafficPolicy": "Local"}
    made = (await api.post(path, service("a", "LoadBalancer", {"port": 80}, **local))).expect(201)
    number = made["spec"]["healthCheckNodePort"]
    assert await refused("services.v1", {"spec": {"healthCheckNodePort": number - 1}}, patch="a") == [
        "spec.healthCheckNodePort: Forbidden: field is immutable"
    ]
    kept = (await api.patch(f"{path}/a", {"spec": {"healthCheckNodePort": None}})).expect(200)
    assert kept["spec"]["healthCheckNodePort"] == number
    # Traffic that any node takes needs none, and gives it back.
    (await api.put(f"{path}/a", service("a", "LoadBalancer", {"port": 80}))).expect(200)
    taken = await api.post(path, service("b", "LoadBalancer", {"port": 80}, **local, healthCheckNodePort=number))
    assert taken.expect(201)["spec"]["healthCheckNodePort"] == number
    again = (await api.patch(f"{path}/a", {"spec": local})).expect(200)
    assert again["spec"]["healthCheckNodePort"] not in {0, number, *numbers(again)}
    plain = (await api.patch(f"{path}/a", {"spec": {"type": "NodePort"}})).expect(200)
    assert "healthCheckNodePort" not in plain["spec"]
    assert plain["spec"]["externalTrafficPolicy"] == "Local"


async def test_a_port_for_health_checks_that_cannot_be_had(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    made = (await api.post(path, service("a", "LoadBalancer", {"port": 80}, externalTrafficPolicy="Local"))).expect(201)
    own, other = made["spec"]["healthCheckNodePort"], numbers(made)[0]
    allocated = "provided port is already allocated"
    for number, why in (
        (own, allocated),
        (other, allocated),
        (80, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
    ):
        asked = {"externalTrafficPolicy": "Local", "healthCheckNodePort": number}
        status = (await api.post(path, service("b", "LoadBalancer", {"port": 80}, **asked))).expect(500)
        assert status["message"] == (
            f"Internal error occurred: failed to allocate requested HealthCheck NodePort {number}: {why}"
        )
    for kind, policy in (("LoadBalancer", "Cluster"), ("NodePort", "Local")):
        asked = {"externalTrafficPolicy": policy, "healthCheckNodePort": 31998}
        status = (await api.post(path, service("b", kind, {"port": 80}, **asked))).expect(422)
        assert [cause["message"] for cause in status["details"]["causes"]] == [
            "Invalid value: 31998: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        ]


async def test_node_ports_stay_with_the_names_of_ports(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    ports = [{"name": "x", "port": 80}, {"name": "y", "port": 81}]
    made = (await api.post(path, service("a", "NodePort", *ports))).expect(201)
    first, second = numbers(made)
    ports = [{"name": "y", "port": 80}, {"name": "x", "port": 90}]
    assert numbers((await api.put(f"{path}/a", service("a", "NodePort", *ports))).expect(200)) == [second, first]
    # A number that is asked for by another port is not kept.
    ports = [{"name": "x", "port": 80}, {"name": "z", "port": 91, "nodePort": first}]
    one, other = numbers((await api.put(f"{path}/a", service("a", "NodePort", *ports))).expect(200))
    assert one not in {0, first}
    assert other == first
    # Fewer ports of a service that has none any more are not a request for them either.
    plain = service("a", "ClusterIP", {"name": "z", "port": 91, "nodePort": first})
    assert numbers((await api.put(f"{path}/a", plain)).expect(200)) == [0]


async def test_where_a_balancer_is(api: RawApi, namespace: str, refused: Refused) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    (await api.post(path, service("a", "LoadBalancer", {"port": 80}))).expect(201)

    def at(*ingress: Json) -> Json:
        return {"status": {"loadBalancer": {"ingress": list(ingress)}}}

    found = (await api.patch(f"{path}/a/status", at({"ip": "1.2.3.4"}, {"hostname": "a.b"}))).expect(200)
    assert found["status"] == {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "VIP"}, {"hostname": "a.b"}]}}
    nowhere = at({"ip": "x"}, {"hostname": "1.2.3.4", "ipMode": "VIP"}, {"ip": "1.1.1.1", "ipMode": "X"})
    where = "status.loadBalancer.ingress"
    assert await refused("services.v1", nowhere, patch="a/status") == [
        f'{where}[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        f'{where}[1].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address',
        f"{where}[1].ipMode: Forbidden: may not be specified when `ip` is not set",
        f'{where}[2].ipMode: Unsupported value: "X": supported values: "Proxy", "VIP"',
    ]
    assert await refused("services.v1", {"spec": {"loadBalancerClass": "x/y"}}, patch="a") == [
        'spec.loadBalancerClass: Invalid value: "x/y": may not change once set'
    ]
    plain = (await api.patch(f"{path}/a", {"spec": {"type": "NodePort"}})).expect(200)
    assert plain["status"] == {"loadBalancer": {}}
    assert await refused("services.v1", at({"ip": "1.2.3.4"}), patch="a/status") == [
        f"{where}: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    ]


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
