from __future__ import annotations

import pytest

from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.client import requests

PODS = GroupVersionResource("", "v1", "pods")
NODES = GroupVersionResource("", "v1", "nodes")
LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (requests.resource_path(PODS), "/api/v1/pods"),
        (requests.resource_path(PODS, namespace="shop"), "/api/v1/namespaces/shop/pods"),
        (requests.resource_path(PODS, namespace="shop", name="web-0"), "/api/v1/namespaces/shop/pods/web-0"),
        (
            requests.resource_path(PODS, namespace="shop", name="web-0", subresource="eviction"),
            "/api/v1/namespaces/shop/pods/web-0/eviction",
        ),
        (requests.resource_path(NODES, name="a", subresource="status"), "/api/v1/nodes/a/status"),
        (requests.resource_path(NODES, name="a", subresource="proxy/stats"), "/api/v1/nodes/a/proxy/stats"),
        (requests.resource_path(NODES, name="system:node"), "/api/v1/nodes/system%3Anode"),
        (
            requests.resource_path(LEASES, namespace="kube-system", name="x"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x",
        ),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("name", [".", "..", "a/b", "a%2Fb"])
def test_a_name_never_becomes_another_path(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of an API path"):
        requests.resource_path(NODES, name=name)


def test_a_subresource_needs_a_name() -> None:
    with pytest.raises(ValueError, match="'status'"):
        requests.resource_path(NODES, subresource="status")


def test_list_query_has_only_what_was_asked_for() -> None:
    assert requests.list_query() == ()
    assert requests.list_query(label_selector="a=b", limit=5, continue_token="x", resource_version="0") == (
        ("labelSelector", "a=b"),
        ("resourceVersion", "0"),
        ("limit", "5"),
        ("continue", "x"),
    )


def test_watch_query() -> None:
    assert requests.watch_query(resource_version="7", timeout_seconds=300) == (
        ("watch", "true"),
        ("resourceVersion", "7"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", "300"),
    )
    assert requests.watch_query(bookmarks=True, send_initial_events=True) == (
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
    )


def test_write_options() -> None:
    assert requests.WriteOptions().query() == ()
    options = requests.WriteOptions(dry_run=True, field_manager="me", field_validation="Strict", force=True)
    assert options.query() == (
        ("dryRun", "All"),
        ("fieldManager", "me"),
        ("fieldValidation", "Strict"),
        ("force", "true"),
    )


def test_delete_body_tells_no_grace_from_grace_zero() -> None:
    assert requests.delete_body() == {"kind": "DeleteOptions", "apiVersion": "v1"}
    assert requests.delete_body(grace_period_seconds=0)["gracePeriodSeconds"] == 0


def test_delete_body_with_everything() -> None:
    body = requests.delete_body(
        grace_period_seconds=30,
        propagation_policy="Foreground",
        orphan_dependents=False,
        uid="u",
        resource_version="9",
        dry_run=True,
        ignore_store_read_errors=True,
    )
    assert body == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 30,
        "propagationPolicy": "Foreground",
        "orphanDependents": False,
        "preconditions": {"uid": "u", "resourceVersion": "9"},
        "dryRun": ["All"],
        "ignoreStoreReadErrorWithClusterBreakingPotential": True,
    }
