from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.openapi.documents import OpenApi
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.schema.model import compile_schema

OBJECT_META = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}


def widget_schema(openapi: OpenApi) -> dict[str, Any]:
    schema = openapi.document("example.com", "v1")["components"]["schemas"]["com.example.v1.Widget"]
    assert isinstance(schema, dict)
    return schema


def test_the_author_s_words_stay(openapi: OpenApi) -> None:
    schema = widget_schema(openapi)
    assert schema["description"] == "A widget."
    spec = schema["properties"]["spec"]
    assert spec["required"] == ["size"]
    assert spec["properties"]["color"] == {
        "type": "string",
        "nullable": True,
        "enum": ["red", "blue"],
        "default": "red",
    }


def test_what_every_object_has_is_added(openapi: OpenApi) -> None:
    schema = widget_schema(openapi)
    assert schema["properties"]["metadata"]["allOf"] == [OBJECT_META]
    assert schema["properties"]["apiVersion"]["type"] == "string"
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    assert schema["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.color"}]


def test_extensions_are_spelled_out(openapi: OpenApi) -> None:
    fields = widget_schema(openapi)["properties"]["spec"]["properties"]
    either = [{"type": "integer"}, {"type": "string"}]
    assert fields["either"]["anyOf"] == either
    assert fields["many"]["items"]["anyOf"] == either
    assert fields["whole"]["required"] == ["apiVersion", "kind"]
    assert fields["whole"]["properties"]["metadata"]["allOf"] == [OBJECT_META]


def test_the_definition_itself_is_left_alone(openapi: OpenApi, make_widget: Any) -> None:
    assert widget_schema(openapi) == widget_schema(openapi)
    source = make_widget("v1").custom.node.source
    assert "metadata" not in source["properties"]
    assert "anyOf" not in source["properties"]["spec"]["properties"]["either"]


def test_lists_of_custom_resources(openapi: OpenApi) -> None:
    document = openapi.document("example.com", "v1")
    schema = document["components"]["schemas"]["com.example.v1.WidgetList"]
    assert schema["properties"]["items"]["items"] == {"$ref": "#/components/schemas/com.example.v1.Widget"}
    assert schema["x-kubernetes-group-version-kind"][0]["kind"] == "WidgetList"
    patch = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]


def test_kinds_of_our_own_need_no_definition() -> None:
    node = compile_schema({"type": "object", "properties": {"spec": {"type": "object"}}})
    resource = Resource(
        "lifecycle.k8s.io", "v1alpha1", "things", "Thing", namespaced=False, strategy=Strategy(), schema=lambda: node
    )
    document = OpenApi(Catalog([resource])).document("lifecycle.k8s.io", "v1alpha1")
    schema = document["components"]["schemas"]["io.k8s.lifecycle.v1alpha1.Thing"]
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert "/apis/lifecycle.k8s.io/v1alpha1/things/{name}" in document["paths"]
