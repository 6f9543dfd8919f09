from __future__ import annotations

from typing import Any

import msgspec
import pytest
import schemathesis
from schemathesis.core.result import Err

from kube_fairlead.api import errors
from kube_fairlead_apiserver.http.messages import Query, Request, Response
from kube_fairlead_apiserver.openapi.components import references
from kube_fairlead_apiserver.openapi.documents import OpenApi
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource

GNOSTIC = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
METHODS = ("get", "put", "post", "patch", "delete")


async def ask(openapi: OpenApi, address: str, **headers: str) -> Response:
    async def read_body() -> bytes:
        return b""

    path, _, query = address.partition("?")
    values = dict(part.split("=", 1) for part in query.split("&")) if query else {}
    names = {key.replace("_", "-"): value for key, value in headers.items()}
    method = names.pop("method", "GET")
    request = Request(method, path, Query({key: [value] for key, value in values.items()}), names, read_body)
    return openapi.answer(request)


def body(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return msgspec.json.decode(response.body)


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, item[method]) for path, item in document["paths"].items() for method in METHODS if method in item
    ]


GROUP_VERSIONS = [("", "v1"), ("apps", "v1"), ("apiextensions.k8s.io", "v1"), ("policy", "v1"), ("example.com", "v1")]


@pytest.mark.parametrize(("group", "version"), GROUP_VERSIONS)
def test_documents_are_whole(openapi: OpenApi, group: str, version: str) -> None:
    document = openapi.document(group, version)
    schemas = document["components"]["schemas"]
    assert set(references(document)) <= schemas.keys()
    assert set(schemas) == set(references(document)), "nothing is listed that nobody refers to"
    identifiers = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(identifiers) == len(set(identifiers))
    for path, _, operation in operations(document):
        shared = document["paths"][path].get("parameters", [])
        named = {found["name"] for found in [*shared, *operation["parameters"]] if found["in"] == "path"}
        assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert "default" in operation["responses"]


@pytest.mark.parametrize(("group", "version"), GROUP_VERSIONS)
def test_schemathesis_can_read_them(openapi: OpenApi, group: str, version: str) -> None:
    document = openapi.document(group, version)
    schema = schemathesis.openapi.from_dict(document)
    found = list(schema.get_all_operations())
    assert [result for result in found if isinstance(result, Err)] == []
    assert len(found) == len(operations(document))


def test_every_verb_of_every_resource_has_its_operation(openapi: OpenApi, catalog: Catalog) -> None:
    actions = {"list": "list", "create": "post", "get": "get", "update": "put"}
    for resource in catalog:
        document = openapi.document(resource.group, resource.version)
        told = {
            operation["x-kubernetes-action"]
            for path, _, operation in operations(document)
            if path.split("/")[-1] == resource.plural or path.endswith(f"/{resource.plural}/{{name}}")
        }
        assert told == {actions.get(verb, verb) for verb in resource.verbs if verb != "watch"}, resource.plural


def test_what_kubectl_looks_for(openapi: OpenApi) -> None:
    document = openapi.document("apps", "v1")
    single = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    patch = single["patch"]
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} == {found["name"] for found in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert "application/apply-patch+yaml" in patch["requestBody"]["content"]
    deployment = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    assert deployment["description"]
    assert "/apis/apps/v1/deployments" in document["paths"]
    scale = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert scale["operationId"] == "readAppsV1NamespacedDeploymentScale"


def test_reviews_have_no_list(openapi: OpenApi) -> None:
    paths = openapi.document("authorization.k8s.io", "v1")["paths"]
    assert set(paths["/apis/authorization.k8s.io/v1/subjectaccessreviews"]) == {"post"}
    local = paths["/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews"]
    assert set(local) == {"post", "parameters"}


async def test_the_index_names_hashed_addresses(openapi: OpenApi) -> None:
    index = body(await ask(openapi, "/openapi/v3"))["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1"} <= index.keys()
    address = index["apis/apps/v1"]["serverRelativeURL"]
    assert address.startswith("/openapi/v3/apis/apps/v1?hash=")
    response = await ask(openapi, address)
    headers = dict(response.headers)
    assert "immutable" in headers["cache-control"]
    assert body(response)["openapi"] == "3.0.0"
    assert (await ask(openapi, address, if_none_match=headers["etag"])).status == 304
    unhashed = await ask(openapi, "/openapi/v3/apis/apps/v1")
    assert "cache-control" not in dict(unhashed.headers)
    assert unhashed.body == response.body


async def test_an_old_address_leads_to_the_new_one(openapi: OpenApi) -> None:
    response = await ask(openapi, "/openapi/v3/api/v1?hash=OLD")
    assert response.status == 301
    assert body(await ask(openapi, dict(response.headers)["location"]))["openapi"] == "3.0.0"


async def test_a_changed_definition_changes_its_own_hash_only(make_widget: Any) -> None:
    catalog = Catalog([make_widget("v1"), make_widget("v1beta1")])
    openapi = OpenApi(catalog)
    before = body(await ask(openapi, "/openapi/v3"))["paths"]
    swagger = dict((await ask(openapi, "/openapi/v2")).headers)["etag"]
    catalog.add(make_widget("v1", {"type": "object", "properties": {"spec": {"type": "object"}}}))
    after = body(await ask(openapi, "/openapi/v3"))["paths"]
    assert before["apis/example.com/v1"] != after["apis/example.com/v1"]
    assert before["apis/example.com/v1beta1"] == after["apis/example.com/v1beta1"]
    assert dict((await ask(openapi, "/openapi/v2")).headers)["etag"] != swagger
    changed = body(await ask(openapi, "/openapi/v3/apis/example.com/v1"))
    assert "size" not in str(changed["components"]["schemas"]["com.example.v1.Widget"])
    catalog.remove("example.com", "v1beta1", "widgets")
    with pytest.raises(errors.NotFound):
        await ask(openapi, "/openapi/v3/apis/example.com/v1beta1")


async def test_the_v2_document_comes_in_json_and_protobuf(make_widget: Any) -> None:
    openapi = OpenApi(Catalog([make_widget("v1")]))
    plain = await ask(openapi, "/openapi/v2")
    assert body(plain)["swagger"] == "2.0"
    packed = await ask(openapi, "/openapi/v2", accept=GNOSTIC)
    asked = await ask(openapi, "/openapi/v2", accept=GNOSTIC.replace("v2.v1", "v2@v1"))
    assert (packed.content_type, asked.content_type, asked.body) == (GNOSTIC, GNOSTIC, packed.body)
    etags = {dict(response.headers)["etag"] for response in (plain, packed)}
    assert len(etags) == 2
    again = await ask(openapi, "/openapi/v2", accept=GNOSTIC, if_none_match=dict(packed.headers)["etag"])
    assert again.status == 304


async def test_what_is_not_there_or_not_offered(openapi: OpenApi) -> None:
    with pytest.raises(errors.NotFound):
        await ask(openapi, "/openapi/v3/apis/nothing/v1")
    with pytest.raises(errors.NotAcceptable):
        await ask(openapi, "/openapi/v3", accept="text/html")
    with pytest.raises(errors.MethodNotSupported):
        await ask(openapi, "/openapi/v2", method="POST")
    assert (await ask(openapi, "/openapi/v3", accept="application/json, */*")).status == 200


def test_custom_resources_without_a_schema_are_free_form(make_widget: Any) -> None:
    resource: Resource = make_widget("v1beta1")
    document = OpenApi(Catalog([resource])).document("example.com", "v1beta1")
    schema = document["components"]["schemas"]["com.example.v1beta1.Widget"]
    assert schema["x-kubernetes-preserve-unknown-fields"] is True
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata"}
