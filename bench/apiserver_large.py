"""The wait of other clients while the embedded API server handles large requests that are as costly as possible.

A separate process measures small requests, first alone, then while one client sends large requests one after the other.
The large ones are in every accepted form of body, and lists in every form: of large objects, of many objects, at a past
revision.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import ssl
import tempfile
import urllib.request
from collections.abc import Iterator

from bench.apiserver_beside import JSON, LIMIT_MS, Request, beside, sending, small
from bench.apiserver_load import Endpoint, Job, Result, drive
from bench.apiserver_plane import Plane, embedded
from bench.harness import Measurement, at_most, benchmark

__all__: list[str] = []

SIZE = 3_100_000  # just below the limit of a request
NAMESPACE = "default"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
THINGS = f"/apis/large.example.com/v1/namespaces/{NAMESPACE}/things"
LARGE_MAPS = "/api/v1/namespaces/large/configmaps"
LARGE_OBJECTS = 12
MANY_OBJECTS = 30_000
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SCALE = f"{DEPLOYMENTS}/scaled/scale"
APPLY = "application/apply-patch+yaml"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@benchmark("apiserver-large")
def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder:
        plane = embedded(pathlib.Path(folder) / "embedded")
        try:
            asyncio.run(plane.start())
            _prepare(plane.endpoint)
            idle = small(plane.endpoint)
            yield Measurement("small requests alone, p99", idle.p99_ms, "ms")
            for large in requests():
                yield _measured(plane, large, idle)
            past = _prepare_lists(plane.endpoint)
            for large in lists():
                yield _measured(plane, large, idle, past)
        finally:
            plane.close()


def _measured(plane: Plane, large: Request, idle: Result, past: int = 0) -> Measurement:
    busy, note = beside(plane, plane.endpoint, large, past)
    note = f"{busy.p99_ms / idle.p99_ms:.1f} times as long as alone; {note}"
    return Measurement(f"beside {large.name}, p99", busy.p99_ms, "ms", at_most(LIMIT_MS), note)


def _prepare(endpoint: Endpoint) -> None:
    """Create a kind that preserves unknown fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.large.example.com"},
        "spec": {"group": "large.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    send = sending(endpoint)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert send("POST", path, JSON, json.dumps(definition).encode()) == 201
    for name, body in (("whole", {}), ("grown", {"k": "v" * 1_000_000})):
        data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": body}
        assert send("POST", MAPS, JSON, json.dumps(data).encode()) == 201


def requests() -> Iterator[Request]:
    """Return a request with each form of body, filled with the most costly content."""
    dry = "?dryRun=All"
    thing = '{"apiVersion":"large.example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":%s}'
    config = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":%s}'
    entries = "{" + ",".join(f'"k{n}":""' for n in range(190_000)) + "}"
    lists, numbers = "[" + "[]," * (SIZE // 3 - 40) + "1]", "[" + "1," * (SIZE // 2 - 80) + "1]"
    few = "{" + ",".join(f'"k{n}":{{"a":[1,{{}}]}}' for n in range(38_000)) + "}"
    yield Request("text in JSON", "POST", MAPS + dry, JSON, (config % f'{{"k":"{"v" * (SIZE - 200)}"}}').encode())
    yield Request("entries in JSON", "POST", MAPS + dry, JSON, (config % entries).encode())
    yield Request("empty lists in JSON", "POST", THINGS + dry, JSON, (thing % lists).encode())
    yield Request("numbers in JSON", "POST", THINGS + dry, JSON, (thing % numbers).encode())
    yield Request("nested values in JSON", "POST", THINGS + dry, JSON, (thing % few).encode())
    yield Request("wrong values in JSON", "POST", MAPS + dry, JSON, (config % entries.replace("k", "/")).encode())
    yield Request(
        "repeated keys in JSON", "POST", THINGS + dry, JSON, (thing % ("{" + '"a":1,' * 500_000 + '"a":1}')).encode()
    )
    head = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "a"}\ndata:\n'
    lines = head + "".join(f'  k{n}: ""\n' for n in range(99_000))
    yield Request("entries in YAML", "POST", MAPS + dry, YAML, lines.encode())
    yield Request("too many values in YAML", "POST", MAPS + dry, YAML, b"[" + b"[]," * (SIZE // 3) + b"]")
    yield Request(
        "text in YAML", "POST", MAPS + dry, YAML, (head + "  k: |\n" + "    text\n" * (SIZE // 9 - 20)).encode()
    )
    yield Request("empty strings in protobuf", "POST", MAPS + dry, PROTOBUF, _protobuf(b"\x12\x00", SIZE // 2 - 100))
    yield Request(
        "entries in protobuf", "POST", MAPS + dry, PROTOBUF, _protobuf(b"\x12\x04\x0a\x00\x12\x00", SIZE // 6 - 100)
    )
    patch = (thing % few).encode()
    yield Request("an apply", "PATCH", THINGS + "/a?fieldManager=m&dryRun=All", APPLY, patch)
    yield Request(
        "an apply of entries", "PATCH", MAPS + "/a?fieldManager=m&dryRun=All", APPLY, (config % entries).encode()
    )
    merge = f'{{"data":{entries}}}'.encode()
    yield Request("a merge patch", "PATCH", MAPS + "/whole" + dry, "application/merge-patch+json", merge)
    yield Request("a strategic patch", "PATCH", MAPS + "/whole" + dry, "application/strategic-merge-patch+json", merge)
    operations = json.dumps([{"op": "copy", "from": "/data/k", "path": f"/data/k{n}"} for n in range(9_000)]).encode()
    yield Request("a patch that copies", "PATCH", MAPS + "/grown" + dry, "application/json-patch+json", operations)
    tests = json.dumps([{"op": "test", "path": "/data/k", "value": "v"}] * 9_000).encode()
    yield Request("a patch that tests", "PATCH", MAPS + "/grown" + dry, "application/json-patch+json", tests)
    yield Request(
        "a CustomResourceDefinition",
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" + dry,
        JSON,
        _definition(),
    )


def _prepare_lists(endpoint: Endpoint) -> int:
    """Create twelve large objects, and many small ones. Returns a revision before the small ones."""
    send = sending(endpoint)
    assert send("POST", "/api/v1/namespaces", JSON, b'{"metadata":{"name":"large"}}') == 201
    for number in range(LARGE_OBJECTS):
        data = {"metadata": {"name": f"l{number}"}, "data": {"k": "v" * 1_000_000}}
        assert send("POST", LARGE_MAPS, JSON, json.dumps(data).encode()) == 201
    past = _revision(endpoint)
    body = json.dumps({"metadata": {"name": "m-%d", "labels": {"a": "b"}}})
    drive(Job(endpoint, "POST", MAPS, body, requests=MANY_OBJECTS))
    scaled = {
        "metadata": {"name": "scaled"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }
    assert send("POST", DEPLOYMENTS, JSON, json.dumps(scaled).encode()) == 201
    return past


def _revision(endpoint: Endpoint) -> int:
    """Return the current revision."""
    context = ssl.create_default_context(cafile=endpoint.ca_file)
    url, headers = f"{endpoint.url}/api/v1/namespaces?limit=1", {"Authorization": f"Bearer {endpoint.token}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=context) as answer:
        return int(json.load(answer)["metadata"]["resourceVersion"])


def lists() -> Iterator[Request]:
    """Return each form of a list, of large objects and of many; and a patch of 3 MB to a scale."""
    metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for path, objects in ((LARGE_MAPS, "large objects"), (MAPS, "many objects")):
        for name, accept in (("", JSON), (" as metadata", metadata), (" as a Table", table), (" as YAML", YAML)):
            yield Request(f"a list of {objects}{name}", "GET", path, accept=accept)
        yield Request(f"a list of {objects}, indented", "GET", path + "?pretty=true")
        yield Request(f"a Table with {objects}", "GET", path + "?includeObject=Object", accept=table)
    yield Request("a selector that nothing matches", "GET", MAPS + "?labelSelector=no%3Dsuch")
    yield Request("a page of the past", "GET", MAPS + "?resourceVersionMatch=Exact&resourceVersion=%past&limit=10")
    patch = json.dumps({"spec": {"replicas": 1}, "x": ["y"] * 600_000}).encode()
    yield Request("a patch of a scale", "PATCH", SCALE + "?dryRun=All", "application/merge-patch+json", patch)
    applied = (
        b"apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: scaled}\nspec: {replicas: 1}\nx:\n"
        + b"- y\n" * 700_000
    )
    yield Request("an apply to a scale", "PATCH", SCALE + "?dryRun=All&fieldManager=m", APPLY, applied)


def _protobuf(field: bytes, times: int) -> bytes:
    metadata = b"\x0a\x03\x0a\x01a"
    content = metadata + field * times
    meta = b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap"
    length = bytearray()
    size = len(content)
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return b"k8s\x00" + meta + b"\x12" + bytes(length) + content


def _definition() -> bytes:
    fields = {f"f{n}": {"type": "object", "properties": {"a": {"type": "string"}}} for n in range(38_000)}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}},
    }
    spec = {"group": "b.example.com", "scope": "Cluster", "names": {"plural": "bs", "kind": "B"}, "versions": [version]}
    whole = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "bs.b.example.com"},
        "spec": spec,
    }
    return json.dumps(whole).encode()
