"""Watches that begin with the present, and bookmarks."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import secret
from kube_fairlead_lab.testing.rawhttp import RawApi

INVALID = 'ListOptions.meta.k8s.io "" is invalid: '
NEEDED = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
STREAM = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for name in ("a", "b"):
        (await api.post(path, secret(name))).expect(201)
    return path


def told(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


@pytest.mark.parametrize("version", ["", "0"])
async def test_the_present_then_a_bookmark_then_what_happens(api: RawApi, path: str, version: str) -> None:
    async with api.watch(path, resourceVersion=version, **STREAM) as watch:
        present = [await watch.next(), await watch.next()]
        bookmark = await watch.next()
        (await api.post(path, secret("c"))).expect(201)
        later = await watch.next()
    assert [told(event) for event in present] == [("ADDED", "a"), ("ADDED", "b")]
    assert bookmark["type"] == "BOOKMARK"
    metadata = bookmark["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    newest = max(int(event["object"]["metadata"]["resourceVersion"]) for event in present)
    assert int(metadata["resourceVersion"]) >= newest
    assert (bookmark["object"]["kind"], bookmark["object"]["apiVersion"]) == ("Secret", "v1")
    assert told(later) == ("ADDED", "c")


async def test_no_bookmark_that_was_not_asked_for(api: RawApi, path: str) -> None:
    async with api.watch(path, **{**STREAM, "allowWatchBookmarks": "false"}) as watch:
        assert [told(await watch.next()) for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]
        (await api.post(path, secret("c"))).expect(201)
        assert told(await watch.next()) == ("ADDED", "c")


async def test_nothing_there_is_a_bookmark_at_once(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    async with api.watch(path, **STREAM) as watch:
        event = await watch.next()
    assert event["type"] == "BOOKMARK"


async def test_selectors_apply(api: RawApi, path: str) -> None:
    async with api.watch(path, fieldSelector="metadata.name=b", **STREAM) as watch:
        assert told(await watch.next()) == ("ADDED", "b")
        assert (await watch.next())["type"] == "BOOKMARK"


async def test_without_initial_events_only_what_happens(api: RawApi, path: str) -> None:
    version = (await api.get(path)).expect(200)["metadata"]["resourceVersion"]
    query = {**STREAM, "sendInitialEvents": "false"}
    async with api.watch(path, resourceVersion=version, **query) as watch:
        (await api.post(path, secret("c"))).expect(201)
        assert told(await watch.next()) == ("ADDED", "c")


async def test_a_bookmark_before_the_end(control_plane: ControlPlane, api: RawApi, path: str) -> None:
    """A watch with bookmarks that ends by itself says shortly before how far it came."""
    seconds = 3 if control_plane.kind == "embedded" else 15  # kube-apiserver does so for longer watches only
    version = (await api.get(path)).expect(200)["metadata"]["resourceVersion"]
    (await api.post("/api/v1/namespaces/default/secrets", {"metadata": {"generateName": "other-"}})).expect(201)
    query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
    async with api.watch(path, **query) as watch:
        event = await watch.next()
    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) >= int(version)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sendInitialEvents": "true"}, INVALID + NEEDED),
        (
            {"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "5"},
            f'{INVALID}[{NEEDED}, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]',
        ),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "5"},
            INVALID + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless "
            "sendInitialEvents is provided",
        ),
    ],
)
async def test_combinations_that_are_refused(api: RawApi, path: str, query: dict[str, str], message: str) -> None:
    status = (await api.get(path, watch="true", **query)).expect(422)
    assert status["message"] == message


async def test_initial_events_are_for_watches(api: RawApi, path: str) -> None:
    status = (await api.get(path, **STREAM)).expect(422)
    assert status["reason"] == "Invalid"
    assert "sendInitialEvents" in status["message"]
