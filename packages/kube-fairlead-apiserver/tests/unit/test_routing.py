"""What a path says, as plain values."""

from __future__ import annotations

import urllib.parse

import pytest

from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Query, Request
from kube_fairlead_apiserver.routing import RequestInfo, read_request


def read(method: str, target: str) -> RequestInfo:
    path, _, query = target.partition("?")

    async def body() -> bytes:
        return b""

    return read_request(Request(method, path, Query(urllib.parse.parse_qs(query)), {}, body))


@pytest.mark.parametrize(
    ("path", "namespace", "resource", "name", "subresource", "in_namespace"),
    [
        ("/api/v1/namespaces/a", "a", "namespaces", "a", "", False),
        ("/api/v1/namespaces/a/status", "a", "namespaces", "a", "status", False),
        ("/api/v1/namespaces/a/status/b", "a", "namespaces", "a", "status", False),
        ("/api/v1/namespaces/a/namespaces/b", "a", "namespaces", "b", "", True),
        ("/api/v1/namespaces/a/namespaces/b/finalize", "a", "namespaces", "b", "finalize", True),
        ("/api/v1/namespaces/a/pods/b/log", "a", "pods", "b", "log", True),
        ("/api/v1/namespaces//pods/b", "", "pods", "b", "", True),
        ("/api/v1/namespaces/a//b", "a", "", "b", "", True),
        ("/api/v1//pods", "", "", "pods", "", False),
        ("//api/v1/pods/b/", "", "pods", "b", "", False),
    ],
)
def test_whom_a_path_is_about(
    path: str, namespace: str, resource: str, name: str, subresource: str, in_namespace: bool
) -> None:
    info = read("GET", path)
    assert (info.namespace, info.resource, info.name, info.subresource, info.in_namespace) == (
        namespace,
        resource,
        name,
        subresource,
        in_namespace,
    )
    asked = info.attributes(UserInfo("alice"))
    assert asked.is_resource
    assert (asked.namespace, asked.resource, asked.name, asked.subresource) == (namespace, resource, name, subresource)


@pytest.mark.parametrize(
    ("method", "target", "verb", "name"),
    [
        ("GET", "/api/v1/pods", "list", ""),
        ("GET", "/api/v1/pods?watch=1", "watch", ""),
        ("GET", "/api/v1/pods?watch=false", "list", ""),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da", "list", "a"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name%3D..", "list", ""),
        ("DELETE", "/api/v1/pods?fieldSelector=metadata.name%3Da", "deletecollection", ""),
        ("POST", "/api/v1/watch/pods", "watch", ""),
        ("GET", "/api/v1/watch/pods?fieldSelector=metadata.name%3Da", "watch", ""),
        ("GET", "/api/v1/proxy/nodes/a/b", "proxy", "a"),
        ("OPTIONS", "/api/v1/pods", "", ""),
        ("GET", "/api/v1/nodes//status", "list", ""),
    ],
)
def test_verbs(method: str, target: str, verb: str, name: str) -> None:
    info = read(method, target)
    assert (info.verb, info.name) == (verb, name)


def test_selectors_count_only_where_they_are_always_obeyed() -> None:
    assert read("GET", "/api/v1/pods?fieldSelector=a%3Db").fields is not None
    assert read("GET", "/api/v1/watch/pods?fieldSelector=a%3Db").fields is None
    assert read("GET", "/api/v1/nodes/a?fieldSelector=a%3Db").fields is None


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/apis/apps", "/healthz", "/API/v1/pods"])
def test_bare_paths(path: str) -> None:
    info = read("GET", path)
    assert (info.is_resource, info.verb, info.path) == (False, "get", path)
