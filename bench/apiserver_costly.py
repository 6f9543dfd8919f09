"""The wait of other clients while the embedded API server handles small requests that are as costly as possible.

Each request is below the size from which a request leaves the event loop. The senders have the permissions of a
namespace's administrator, or of an author of CustomResourceDefinitions. The bar is for the longest wait, not for the
p99: a single such request must not delay others.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from bench.apiserver_beside import JSON, LIMIT_MS, Request, beside, sending, small
from bench.apiserver_load import Endpoint, Job, drive
from bench.apiserver_plane import account, embedded
from bench.harness import Measurement, at_most, benchmark

__all__: list[str] = []

Json = dict[str, Any]

MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/costly.example.com/v1/namespaces/default/things"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
STRATEGIC = "application/strategic-merge-patch+json"
MANY_MAPS = 1_000


@benchmark("apiserver-costly")
def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        plane = embedded(pathlib.Path(folder) / "embedded")
        try:
            asyncio.run(plane.start())
            _prepare(plane.endpoint)
            senders = {
                "admin": account(plane, "admin", "admin", namespaced=True),
                "author": account(plane, "author", "author"),
            }
            idle = small(plane.endpoint)
            yield Measurement("small requests alone, longest", idle.worst_ms, "ms")
            for name, request in requests():
                busy, note = beside(plane, senders[name], request)
                yield Measurement(
                    f"beside {request.name}, longest", busy.worst_ms, "ms", at_most(LIMIT_MS), f"{name}: {note}"
                )
        finally:
            plane.close()


def _prepare(endpoint: Endpoint) -> None:
    send = sending(endpoint)
    groups = ["apiextensions.k8s.io", "certificates.k8s.io", "costly.example.com"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    author = json.dumps({"metadata": {"name": "author"}, "rules": rules}).encode()
    assert send("POST", f"{RBAC}/clusterroles", JSON, author) == 201
    assert send("POST", DEFINITIONS, JSON, json.dumps(_definition("things", _schema())).encode()) == 201
    until = time.monotonic() + 30
    while send("GET", THINGS, JSON, b"") == 404:
        assert time.monotonic() < until, "the kind is not established"
        time.sleep(0.01)
    deep: Json = {}
    for _ in range(100):
        deep = {"a": deep}
    thing = {
        "apiVersion": "costly.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "deep"},
        "spec": {"deep": deep},
    }
    assert send("POST", THINGS, JSON, json.dumps(thing).encode()) == 201
    referred = {"metadata": {"name": "referring"}, "secrets": [{"name": f"{n}y"} for n in range(45_000)]}
    assert send("POST", ACCOUNTS, JSON, json.dumps(referred).encode()) == 201
    drive(
        Job(
            endpoint, "POST", MAPS, json.dumps({"metadata": {"name": "m-%d", "labels": {"a": "c"}}}), requests=MANY_MAPS
        )
    )


def _definition(plural: str, schema: Json) -> Json:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [{"name": "Deep", "type": "string", "jsonPath": ".spec.deep" + "..a" * 4}],
    }
    names = {"plural": plural, "kind": plural[:-1].title()}
    spec = {"group": "costly.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.costly.example.com"},
        "spec": spec,
    }


def _schema() -> Json:
    """Return a schema with rules over pairs, nested alternatives, and a field that preserves unknown fields."""
    alternatives: Json = {"pattern": "never"}
    for _ in range(9):
        alternatives = {"anyOf": [alternatives, alternatives]}
    pairs = [{"rule": f"self.all(x, self.all(y, x + y >= {-n}))"} for n in range(10)]
    spec = {
        "type": "object",
        "properties": {
            "deep": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "pairs": {
                "type": "array",
                "maxItems": 300,
                "items": {"type": "integer"},
                "x-kubernetes-validations": pairs,
            },
            "searched": _list_of_strings(2_000, "self.all(x, self.indexOf('b') < 0)"),
            "added": _list_of_strings(12_000, "self.all(x, (self + self).size() > 0)"),
            "alternatives": {"type": "array", "items": {"type": "string", **alternatives}},
        },
    }
    return {"type": "object", "properties": {"spec": spec}}


def _list_of_strings(most: int, rule: str) -> Json:
    """Return a list whose rule costs far less by Kubernetes' estimate than it takes."""
    rules = [{"rule": rule}]
    return {
        "type": "array",
        "maxItems": most,
        "items": {"type": "string", "maxLength": 1},
        "x-kubernetes-validations": rules,
    }


def _defaults() -> Json:
    """Return defaults that are each validated by a rule over all pairs of their items."""
    one = {
        "type": "array",
        "maxItems": 150,
        "items": {"type": "integer"},
        "default": [1] * 150,
        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x + y > 0))"}],
    }
    return {"type": "object", "properties": {f"f{n}": one for n in range(80)}}


def requests() -> Iterator[tuple[str, Request]]:
    """Return the requests, each with its sender."""
    texts = [f"{n:x}" for n in range(300)]
    role = {"metadata": {"name": "a"}, "rules": [{"apiGroups": texts, "resources": texts, "verbs": texts}]}
    body = json.dumps(role).encode()
    yield "admin", Request("a Role of 27 million permissions", "POST", f"{RBAC}/namespaces/default/roles", JSON, body)
    fields = "%2C".join(["type!=a"] * 5_000)
    path = f"/api/v1/namespaces/default/secrets?fieldSelector={fields}"
    yield "admin", Request("a long field selector", "GET", path)
    labels = "%2C".join(["zz=1", *["a!=b"] * 8_000])
    yield "admin", Request("a long label selector", "GET", f"{MAPS}?labelSelector={labels}")
    different = "%2C".join(["zz=1", *(f"a!={n}" for n in range(6_000))])
    yield "admin", Request("a long label selector of different values", "GET", f"{MAPS}?labelSelector={different}")
    deleted = json.dumps({"secrets": [{"name": f"{n}y", "$patch": "delete"} for n in range(1_200)]}).encode()
    yield "admin", Request("a strategic patch", "PATCH", f"{ACCOUNTS}/referring?dryRun=All", STRATEGIC, deleted)
    fields_of = {f"f{n}": {"type": "string", "pattern": f"b{n}(\\pL{{900}}\\pN{{90}})"} for n in range(300)}
    patterns = json.dumps(_definition("others", {"type": "object", "properties": fields_of})).encode()
    yield "author", Request("patterns of a definition", "POST", f"{DEFINITIONS}?dryRun=All", JSON, patterns)
    defaults = json.dumps(_definition("others", _defaults())).encode()
    yield "author", Request("defaults of a definition", "POST", f"{DEFINITIONS}?dryRun=All", JSON, defaults)
    yield "author", Request("a column that repeats itself", "GET", f"{THINGS}/deep", accept=TABLE)
    thing = {"apiVersion": "costly.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    for name, spec in (
        ("rules over all pairs", {"pairs": list(range(300))}),
        ("rules that search", {"searched": ["a"] * 2_000}),
        ("rules that add", {"added": ["a"] * 12_000}),
        ("alternatives of alternatives", {"alternatives": ["a"] * 6_000}),
    ):
        body = json.dumps({**thing, "spec": spec}).encode()
        yield "author", Request(name, "POST", f"{THINGS}?dryRun=All", JSON, body)
    policy = {
        "metadata": {"name": "a"},
        "spec": {
            "podSelector": {},
            "ingress": [
                {
                    "from": [
                        {
                            "ipBlock": {
                                "cidr": "10.0.0.0/8",
                                "except": [f"10.{n % 250}.{n // 250}.0/24" for n in range(2_500)],
                            }
                        }
                    ]
                }
            ],
        },
    }
    path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies?dryRun=All"
    yield "admin", Request("a NetworkPolicy of many ranges", "POST", path, JSON, json.dumps(policy).encode())
    usages = [f"usage {n}" for n in range(5_000)]
    asked = {"metadata": {"name": "a"}, "spec": {"signerName": "example.com/a", "request": "YQ==", "usages": usages}}
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All"
    yield "author", Request("many usages of a certificate", "POST", path, JSON, json.dumps(asked).encode())
