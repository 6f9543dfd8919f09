from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_fairlead_apiserver.openapi.documents import OpenApi
from kube_fairlead_apiserver.openapi.gnostic import encode_document
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.types import protobuf_wire


@pytest.fixture(scope="module")
def swagger(openapi: OpenApi) -> dict[str, Any]:
    return openapi.swagger()


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def test_it_is_swagger_and_whole(swagger: dict[str, Any]) -> None:
    assert swagger["swagger"] == "2.0"
    for found in walk(swagger["paths"]):
        assert not {"requestBody", "content", "anyOf", "oneOf"} & found.keys()
    for found in walk([*swagger["paths"].values(), *swagger["definitions"].values()]):
        reference = found.get("$ref")
        if isinstance(reference, str):
            assert reference.removeprefix("#/definitions/") in swagger["definitions"]


def test_types_with_alternatives_have_a_plain_form(swagger: dict[str, Any]) -> None:
    definitions = swagger["definitions"]
    assert definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {"type": "string"}
    assert definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["format"] == "int-or-string"
    color = definitions["com.example.v1.Widget"]["properties"]["spec"]["properties"]["color"]
    assert "nullable" not in color


def test_bodies_are_parameters(swagger: dict[str, Any]) -> None:
    create = swagger["paths"]["/api/v1/namespaces"]["post"]
    (given,) = [found for found in create["parameters"] if found["in"] == "body"]
    assert given["schema"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Namespace"}
    assert given["required"] is True
    assert "application/json" in create["consumes"]
    assert "application/json" in create["produces"]


def test_kinds_known_in_many_groups_list_them_all(swagger: dict[str, Any]) -> None:
    options = swagger["definitions"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    groups = {kind["group"] for kind in options["x-kubernetes-group-version-kind"]}
    assert {"", "apps", "policy", "example.com"} <= groups


def fields(data: bytes) -> dict[int, list[Any]]:
    """A message taken apart by the wire format alone."""
    found: dict[int, list[Any]] = {}
    position = 0
    while position < len(data):
        tag, position = protobuf_wire.read_varint(data, position, len(data))
        value: Any
        if tag & 7 == protobuf_wire.LENGTH:
            start, position = protobuf_wire.read_length(data, position, len(data))
            value = data[start:position]
        elif tag & 7 == protobuf_wire.VARINT:
            value, position = protobuf_wire.read_varint(data, position, len(data))
        else:
            value, position = data[position : position + 8], position + 8
        found.setdefault(tag >> 3, []).append(value)
    return found


def entries(data: bytes, number: int = 1) -> dict[str, bytes]:
    named = [fields(entry) for entry in fields(data).get(number, [])]
    return {entry[1][0].decode(): entry[2][0] for entry in named}


def test_the_protobuf_form_holds_the_same(make_widget: Any) -> None:
    swagger = OpenApi(Catalog([make_widget("v1")])).swagger()
    document = fields(encode_document(swagger))
    assert document[1] == [b"2.0"]
    definitions = entries(document[9][0])
    assert definitions.keys() == swagger["definitions"].keys()
    widget = fields(definitions["com.example.v1.Widget"])
    assert widget[4] == [b"A widget."]
    assert fields(widget[22][0]) == {1: [b"object"]}
    spec = fields(entries(widget[25][0])["spec"])
    assert spec[19] == [b"size"]
    size = fields(entries(spec[25][0])["size"])
    assert size[9] == [b"\0\0\0\0\0\0\xf0?"]  # minimum 1.0
    color = fields(entries(spec[25][0])["color"])
    assert [fields(found)[2] for found in color[20]] == [[b'"red"'], [b'"blue"']]
    assert fields(color[5][0]) == {2: [b'"red"']}
    free = fields(entries(spec[25][0])["free"])
    assert fields(free[21][0]) == {2: [1]}
    kinds = entries(definitions["com.example.v1.Widget"], 31)["x-kubernetes-group-version-kind"]
    assert fields(kinds) == {2: [b'[{"group":"example.com","kind":"Widget","version":"v1"}]']}


def test_the_protobuf_form_has_the_operations(make_widget: Any) -> None:
    swagger = OpenApi(Catalog([make_widget("v1")])).swagger()
    paths = entries(fields(encode_document(swagger))[8][0], 2)
    assert paths.keys() == swagger["paths"].keys()
    item = fields(paths["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"])
    assert {2, 3, 5, 8, 9} == set(item)
    patch = fields(item[8][0])
    assert patch[5] == [b"patchExampleComV1NamespacedWidget"]
    assert b"application/merge-patch+json" in patch[7]
    assert len(patch[8]) == 5  # four in the query, one in the body
    assert set(entries(patch[9][0])) == {"200", "201", "default"}
