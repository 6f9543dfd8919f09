"""Requests that make no sense get an answer that does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_fairlead_lab.testing.control_plane import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map, failure
from kube_fairlead_lab.testing.rawhttp import MERGE_PATCH, RawApi


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"42",
        b'"text"',
        b"\xff\xfe",
        b'{"metadata": "text"}',
        b'{"metadata":{"labels":[]}}',
        b"{} {}",
    ],
)
async def test_bodies_that_are_no_object(api: RawApi, path: str, body: bytes) -> None:
    answer = await api.request("POST", path, body)
    assert 400 <= answer.code < 500, answer.text
    assert answer.json["kind"] == "Status"


async def test_a_body_of_the_wrong_type(api: RawApi, path: str) -> None:
    status = (await api.request("POST", path, b"<xml/>", content_type="application/xml")).expect(415)
    assert status["reason"] == "UnsupportedMediaType"
    assert status["message"].startswith(
        "the body of the request was in an unknown format - accepted media types include: "
    )


async def test_a_type_that_is_none(api: RawApi, path: str) -> None:
    status = (await api.request("POST", path, b"{}", content_type="; nothing")).expect(415, 400)
    assert status["kind"] == "Status"


async def test_json_with_parameters_is_json(api: RawApi, path: str) -> None:
    body = config_map("a")
    (await api.request("POST", path, body, content_type="application/json; charset=utf-8")).expect(201)


async def test_deep_nesting(api: RawApi, path: str) -> None:
    deep = b'{"metadata":{"name":"a"},"data":' + b'{"k":' * 20_000 + b"1" + b"}" * 20_000 + b"}"
    answer = await api.request("POST", path, deep)
    assert 400 <= answer.code < 500
    (await api.get(path)).expect(200)


async def test_a_body_that_is_too_large(api: RawApi, path: str) -> None:
    huge = b'{"metadata":{"name":"a"},"data":{"k":"' + b"x" * (3 * 1024 * 1024 + 1) + b'"}}'
    answer = await api.request("POST", path, huge)
    status = answer.expect(413)
    assert status["reason"] == "RequestEntityTooLarge"
    assert status["message"].startswith("Request entity too large: limit is 3145728")


async def test_a_config_map_that_is_too_large(api: RawApi, path: str) -> None:
    status = (await api.post(path, config_map("a", {"k": "x" * (1024 * 1024 + 1)}))).expect(422)
    (cause,) = status["details"]["causes"]
    assert (cause["reason"], cause["message"]) == ("FieldValueTooLong", "Too long: may not be more than 1048576 bytes")


async def test_annotations_that_are_too_large(api: RawApi, path: str) -> None:
    status = (await api.post(path, config_map("a", annotations={"k": "x" * (256 * 1024)}))).expect(422)
    assert status["details"]["causes"] == [
        {
            "reason": "FieldValueTooLong",
            "message": "Too long: may not be more than 262144 bytes",
            "field": "metadata.annotations",
        }
    ]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/nothings", 404),
        ("/api/v2/pods", 404),
        ("/apis/apps/v1/nothings", 404),
        ("/nothing", 404),
        ("/api/v1/namespaces/default/pods/p/log/x/y", 404),
    ],
)
async def test_paths_that_lead_nowhere(api: RawApi, path: str, code: int) -> None:
    assert (await api.get(path)).code == code


async def test_a_resource_that_is_not_there(api: RawApi) -> None:
    assert (await api.get("/api/v1/namespaces/default/nothings")).expect(404) == failure(
        404, "NotFound", "the server could not find the requested resource", {}
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_methods_that_do_not_fit(api: RawApi, namespace: str, method: str) -> None:
    path = {
        "POST": f"/api/v1/namespaces/{namespace}/configmaps/a",
        "PUT": f"/api/v1/namespaces/{namespace}/configmaps",
        "PATCH": f"/api/v1/namespaces/{namespace}/configmaps",
        "DELETE": "/api/v1/configmaps",
    }[method]
    status = (await api.request(method, path, {}, content_type=MERGE_PATCH)).expect(405)
    assert status["reason"] == "MethodNotAllowed"
    assert status["message"] == "the server does not allow this method on the requested resource"


async def test_a_method_nobody_knows(api: RawApi, path: str) -> None:
    answer = await api.request("BREW", path)
    # The embedded server's HTTP parser knows the registered methods only, and calls any other malformed.
    assert answer.code in {400, 403, 405}


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "abc"},
        {"timeoutSeconds": "abc", "watch": "true"},
        {"labelSelector": "(((("},
        {"fieldSelector": "a=b=c"},
    ],
)
async def test_bad_query_parameters(api: RawApi, path: str, query: dict[str, Any]) -> None:
    assert (await api.get(path, **query)).expect(400)["reason"] == "BadRequest"


@pytest.mark.parametrize("name", ["%2e%2e", "a%2Fb", "a%00b", "%ff"])
async def test_names_that_are_none(api: RawApi, path: str, name: str) -> None:
    answer = await api.get(f"{path}/{name}")
    assert answer.code in {301, 400, 404}, answer.text


async def test_protobuf_that_is_garbage(api: RawApi, path: str) -> None:
    for body in (b"", b"k8s\x00", b"k8s\x00\xff\xff\xff", b"nothing"):
        answer = await api.request("POST", path, body, content_type="application/vnd.kubernetes.protobuf")
        assert 400 <= answer.code < 500, (body, answer.text)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT"])
async def test_http_on_the_port_of_tls(control_plane: ControlPlane, method: str) -> None:
    host, _, port = control_plane.url.removeprefix("https://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{method} /version HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer == b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
