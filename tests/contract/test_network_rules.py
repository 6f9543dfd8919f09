"""What a server refuses in policies, ingresses, services and their endpoints, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Refused, inside

POLICIES, INGRESSES = "networkpolicies.networking.k8s.io/v1", "ingresses.networking.k8s.io/v1"
CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
SLICES, SERVICES = "endpointslices.discovery.k8s.io/v1", "services.v1"
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
PORTS = [{"port": 80}]


def ingress(*paths: dict[str, Any], host: str = "a.b") -> dict[str, Any]:
    return {"spec": {"rules": [{"host": host, "http": {"paths": list(paths)}}]}}


def route(path: str = "/", kind: str = "Prefix", backend: Any = None) -> dict[str, Any]:
    return {"path": path, "pathType": kind, "backend": BACKEND if backend is None else backend}


def policy(**spec: Any) -> dict[str, Any]:
    return {"spec": {"podSelector": {}, **spec}}


def service(**spec: Any) -> dict[str, Any]:
    return {"spec": {"clusterIP": "None", "ports": PORTS, **spec}}


def endpoints(*addresses: str) -> dict[str, Any]:
    return {"addressType": "IPv4", "endpoints": [{"addresses": list(addresses)}]}


RULES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a policy for pods that nobody can name": (
        POLICIES,
        policy(podSelector={"matchExpressions": [{"key": "a", "operator": "X"}]}),
        ['spec.podSelector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator'],
    ),
    "a policy of no kind": (
        POLICIES,
        policy(policyTypes=["X"]),
        ['spec.policyTypes[0]: Unsupported value: "X": supported values: "Ingress", "Egress"'],
    ),
    "ports that are none": (
        POLICIES,
        policy(ingress=[{"ports": [{"port": 0}, {"port": 5, "endPort": 3}, {"endPort": 3}, {"protocol": "X"}]}]),
        [
            "spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ingress[0].ports[1].endPort: Invalid value: 5: must be greater than or equal to `port`",
            "spec.ingress[0].ports[2].endPort: Invalid value: 3: may not be specified when `port` is not specified",
            'spec.ingress[0].ports[3].protocol: Unsupported value: "X": supported values: "TCP", "UDP", "SCTP"',
        ],
    ),
    "peers that are none": (
        POLICIES,
        policy(
            egress=[
                {
                    "to": [
                        {},
                        {"ipBlock": {"cidr": "x"}},
                        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}},
                        {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}},
                    ]
                }
            ]
        ),
        [
            "spec.egress[0].to[0]: Required value: must specify a peer",
            (
                'spec.egress[0].to[1].ipBlock.cidr: Invalid value: "x": '
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            ),
            'spec.egress[0].to[2].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
            "spec.egress[0].to[3]: Forbidden: may not specify both ipBlock and another peer",
        ],
    ),
    "an ingress to nowhere": (
        INGRESSES,
        {"spec": {}},
        ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    ),
    "a host that is an address": (
        INGRESSES,
        ingress(route(), host="1.2.3.4"),
        ['spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address'],
    ),
    "paths that are none": (
        INGRESSES,
        ingress(route("x"), route("/a//b"), route("/a/.."), route("", "ImplementationSpecific"), route("/", "X")),
        [
            'spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path',
            "spec.rules[0].http.paths[1].path: Invalid value: \"/a//b\": must not contain '//'",
            "spec.rules[0].http.paths[2].path: Invalid value: \"/a/..\": cannot end with '/..'",
            (
                'spec.rules[0].http.paths[4].pathType: Unsupported value: "X": '
                'supported values: "Exact", "ImplementationSpecific", "Prefix"'
            ),
        ],
    ),
    "backends that are none": (
        INGRESSES,
        ingress(
            route(backend={}),
            route(backend={"service": {"name": "s", "port": {}}}),
            route(backend={"service": {"name": "s", "port": {"name": "a", "number": 1}}}),
            route(backend={"service": {"name": "", "port": {"number": 70000}}}),
            route(backend={"resource": {"kind": "", "name": ""}}),
        ),
        [
            'spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required',
            "spec.rules[0].http.paths[1].backend: Required value: port name or number is required",
            'spec.rules[0].http.paths[2].backend: Invalid value: "": cannot set both port name & port number',
            "spec.rules[0].http.paths[3].backend.service.name: Required value",
            (
                "spec.rules[0].http.paths[3].backend.service.port.number: "
                "Invalid value: 70000: must be between 1 and 65535, inclusive"
            ),
            "spec.rules[0].http.paths[4].backend.resource.kind: Required value",
            "spec.rules[0].http.paths[4].backend.resource.name: Required value",
        ],
    ),
    "a class of nobody": (
        CLASSES,
        {"spec": {"controller": "a.b/c", "parameters": {"kind": "X", "name": "", "scope": "Namespace"}}},
        [
            "spec.parameters.name: Required value",
            "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
        ],
    ),
    "endpoints of no kind": (
        SLICES,
        {"addressType": "X", "endpoints": [], "ports": [{"name": "a"}, {"name": "a", "protocol": "Y"}]},
        [
            'addressType: Unsupported value: "X": supported values: "FQDN", "IPv4", "IPv6"',
            'ports[1].name: Duplicate value: "a"',
            'ports[1].protocol: Unsupported value: "Y": supported values: "SCTP", "TCP", "UDP"',
        ],
    ),
    "addresses that nobody can reach": (
        SLICES,
        endpoints("x", "127.0.0.1", "0.0.0.0", "169.254.1.1", "2001:db8::1"),
        [
            'endpoints[0].addresses: Invalid value: "2001:db8::1": must be an IPv4 address',
            (
                'endpoints[0].addresses[0]: Invalid value: "x": '
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            ),
            (
                'endpoints[0].addresses[1]: Invalid value: "127.0.0.1": '
                "may not be in the loopback range (127.0.0.0/8, ::1/128)"
            ),
            'endpoints[0].addresses[2]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
            (
                'endpoints[0].addresses[3]: Invalid value: "169.254.1.1": '
                "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
            ),
        ],
    ),
    "no address": (
        SLICES,
        endpoints(),
        ["endpoints[0].addresses: Required value: must contain at least 1 address"],
    ),
    "names that are no domains": (
        SLICES,
        {"addressType": "FQDN", "endpoints": [{"addresses": ["a.b.", "x", ""]}], "ports": [{"appProtocol": "/b"}]},
        [
            (
                'endpoints[0].addresses[1]: Invalid value: "x": '
                "should be a domain with at least two segments separated by dots"
            ),
            "endpoints[0].addresses[2]: Required value",
            'ports[0].appProtocol: Invalid value: "/b": prefix part must be non-empty',
        ],
    ),
    "hints at nobody": (
        SLICES,
        {
            "addressType": "IPv4",
            "endpoints": [
                {
                    "addresses": ["10.0.0.1"],
                    "hints": {
                        "forZones": [{"name": "a"}, {"name": "a"}],
                        "forNodes": [{"name": f"n{index}"} for index in range(9)],
                    },
                }
            ],
        },
        [
            "endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items",
            'endpoints[0].hints.forZones[1].name: Duplicate value: "a"',
        ],
    ),
    "a service elsewhere with an address here": (
        SERVICES,
        {"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.0.0.9"}},
        ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
    ),
    "a service that remembers for too long": (
        SERVICES,
        service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 90000}}),
        [
            (
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: "
                "must be greater than 0 and less than 86400"
            )
        ],
    ),
    "a port that leads nowhere": (
        SERVICES,
        service(ports=[{"port": 80, "targetPort": 70000}]),
        ["spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    "a balancer that nobody asked for": (
        SERVICES,
        service(allocateLoadBalancerNodePorts=True, loadBalancerClass="x/y", loadBalancerSourceRanges=["10.0.0.0/8"]),
        [
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
            "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
            "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ],
    ),
    "a balancer of no class": (
        SERVICES,
        service(
            type="LoadBalancer",
            clusterIP="",
            ports=[{"port": 80, "appProtocol": "/b"}],
            loadBalancerClass="/b",
            loadBalancerSourceRanges=[" 10.0.0.0/8", "x"],
            trafficDistribution="X",
        ),
        [
            (
                'spec.LoadBalancerSourceRanges[1]: Invalid value: "x": '
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            ),
            'spec.loadBalancerClass: Invalid value: "/b": prefix part must be non-empty',
            'spec.ports[0].appProtocol: Invalid value: "/b": prefix part must be non-empty',
            (
                'spec.trafficDistribution: Unsupported value: "X": '
                'supported values: "PreferClose", "PreferSameZone", "PreferSameNode"'
            ),
        ],
    ),
    "traffic that does not come": (
        SERVICES,
        service(externalTrafficPolicy="Local", internalTrafficPolicy="X", sessionAffinity="Y"),
        [
            'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
            'spec.internalTrafficPolicy: Unsupported value: "X": supported values: "Cluster", "Local"',
            'spec.sessionAffinity: Unsupported value: "Y": supported values: "ClientIP", "None"',
        ],
    ),
}


@pytest.mark.parametrize("case", RULES)
async def test_what_cannot_be(refused: Refused, case: str) -> None:
    path, body, expected = RULES[case]
    assert await refused(path, body) == expected


async def test_policies_are_about_what_they_mention(api: RawApi, namespace: str) -> None:
    path = inside(namespace, POLICIES)
    made = (await api.post(path, {"metadata": {"name": "p"}, **policy()}, dryRun="All")).expect(201)
    assert made["spec"]["policyTypes"] == ["Ingress"]
    body = {"metadata": {"name": "p"}, **policy(egress=[{"ports": [{"port": 80}]}])}
    spec = (await api.post(path, body, dryRun="All")).expect(201)["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == [{"ports": [{"port": 80, "protocol": "TCP"}]}]


async def test_classes_of_ingresses(api: RawApi, namespace: str, refused: Refused) -> None:
    spec = {"controller": "a.b/c", "parameters": {"kind": "X", "name": "y"}}
    made = (await api.post(CLASSES, {"metadata": {"name": namespace}, "spec": spec})).expect(201)
    assert made["spec"]["parameters"]["scope"] == "Cluster"
    assert made["metadata"]["generation"] == 1
    assert await refused(CLASSES, {"spec": {"controller": "a.b/d"}}, patch=namespace) == [
        'spec.controller: Invalid value: "a.b/d": field is immutable'
    ]
    (await api.delete(f"{CLASSES}/{namespace}")).expect(200)


async def test_a_service_gives_its_address_back(api: RawApi, namespace: str) -> None:
    path = inside(namespace, SERVICES)
    (await api.post(path, {"metadata": {"name": "s"}, "spec": {"ports": PORTS}})).expect(201)
    moved = await api.patch(f"{path}/s", {"spec": {"type": "ExternalName", "externalName": "a.b"}})
    spec = moved.expect(200)["spec"]
    gone = {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"}
    assert not gone & spec.keys()
    (await api.delete(f"{path}/s")).expect(200)


async def test_a_service_remembers_its_clients(api: RawApi, namespace: str) -> None:
    body = {"metadata": {"name": "s"}, **service(sessionAffinity="ClientIP")}
    spec = (await api.post(inside(namespace, SERVICES), body, dryRun="All")).expect(201)["spec"]
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    assert spec["ipFamilyPolicy"] == "RequireDualStack"


async def test_slices_are_counted_and_told_of(api: RawApi, namespace: str) -> None:
    path = inside(namespace, SLICES)
    endpoint = {"addresses": ["a.b"], "deprecatedTopology": {"a": "b"}}
    body = {"metadata": {"name": "s"}, "addressType": "FQDN", "endpoints": [endpoint]}
    answer = await api.post(path, body)
    assert answer.expect(201)["endpoints"] == [{"addresses": ["a.b"], "conditions": {}}]
    assert answer.headers["Warning"] == '299 - "spec.addressType: FQDN endpoints are deprecated"'
    # Readers find slices by their labels.
    labelled = (await api.patch(f"{path}/s", {"metadata": {"labels": {"a": "b"}}})).expect(200)
    assert labelled["metadata"]["generation"] == 2
    noted = (await api.patch(f"{path}/s", {"metadata": {"annotations": {"a": "b"}}})).expect(200)
    assert noted["metadata"]["generation"] == 2
