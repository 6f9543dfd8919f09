"""Who asked for an event: recorded by admission, and not by what the request says of itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kube_fairlead.api import crds
from kube_fairlead.api.reserved import ANNOTATION_REQUESTED_BY
from kube_fairlead.install import removal, requester_policy
from kube_fairlead.install.installation import Installation
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi

Json = dict[str, Any]

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
EVENTS = "/apis/lifecycle.k8s.io/v1alpha1/lifecycleevents"
RECORDS = "/apis/lifecycle.k8s.io/v1alpha1/nodelifecyclerecords"


def path_of(manifest: Json) -> str:
    resource = removal._resource(manifest)
    return f"/apis/{resource.group}/{resource.version}/{resource.resource}/{manifest['metadata']['name']}"


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[RawApi]:
    """The administrator of a server that knows the kinds, with the policies that `fairlead install` prints."""
    async with RawApi(control_plane.access(), timeout_seconds=60) as session:
        policies: list[Json] = []
        if control_plane.kind == "kube":
            for manifest in crds.crds():
                (await session.apply(path_of(manifest), manifest, "tests")).expect(200, 201)
            await session.poll(EVENTS, lambda answer: answer.code == 200)
            await session.poll(RECORDS, lambda answer: answer.code == 200)
            policies = requester_policy.requester_manifests(Installation(requester="record"))
            for manifest in policies:
                (await session.apply(path_of(manifest), manifest, "tests")).expect(200, 201)
        try:
            yield session
        finally:
            for manifest in reversed(policies):
                (await session.delete(path_of(manifest))).expect(200)


def event(name: str, **annotations: str) -> Json:
    return {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleEvent",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"transitionName": "node-drain", "bindingNode": f"node-of-{name}"},
    }


async def test_the_user_of_the_create_request_is_recorded_and_stays(
    api: RawApi, unique_name: Callable[[str], str], control_plane: ControlPlane
) -> None:
    me = (await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", _review())).expect(201)
    user = me["status"]["userInfo"]["username"]
    if control_plane.kind == "kube":
        await _in_force(api, unique_name)
    name = unique_name("asked")
    made = (await api.post(EVENTS, event(name, note="kept"))).expect(201)
    try:
        assert made["metadata"]["annotations"] == {"note": "kept", ANNOTATION_REQUESTED_BY: user}
        other = {"metadata": {"annotations": {ANNOTATION_REQUESTED_BY: "mallory"}}}
        answer = await api.patch(f"{EVENTS}/{name}", other)
        stored = (await api.get(f"{EVENTS}/{name}")).expect(200)
        assert stored["metadata"]["annotations"][ANNOTATION_REQUESTED_BY] == user
        assert answer.code == (200 if control_plane.kind == "embedded" else 403)
    finally:
        (await api.delete(f"{EVENTS}/{name}")).expect(200)


async def _in_force(api: RawApi, unique_name: Callable[[str], str]) -> None:
    """Until the API server has heard of the policies: it reads them through a watch."""
    lies = event(unique_name("lies"), **{ANNOTATION_REQUESTED_BY: "mallory"})

    def is_corrected(answer: Answer) -> bool:
        # The mutating policy puts the user in place of the lie, so that the other one has nothing to refuse.
        said = answer.json.get("metadata", {}).get("annotations", {}).get(ANNOTATION_REQUESTED_BY)
        return answer.code == 201 and said != "mallory"

    await api.poll(EVENTS, is_corrected, lies, dryRun="All")


def _review() -> Json:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def entry(uid: str, **changes: Any) -> Json:
    return {
        "eventUID": uid,
        "eventName": f"event-{uid}",
        "transitionName": "node-drain",
        "result": "Succeeded",
        "completionTime": "2026-07-01T12:00:00Z",
        **changes,
    }


async def test_what_is_recorded_does_not_change_and_is_bounded(api: RawApi, unique_name: Callable[[str], str]) -> None:
    name = unique_name("node")
    record = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "NodeLifecycleRecord",
        "metadata": {"name": name},
        "entries": [entry("a")],
    }
    made = (await api.post(RECORDS, record)).expect(201)
    path = f"{RECORDS}/{name}"
    try:
        added = {**made, "entries": [entry("b", result="Failed", message="disk is full"), entry("a")]}
        stored = (await api.put(path, added)).expect(200)
        rewritten = {**stored, "entries": [entry("b", result="Succeeded"), entry("a")]}
        answer = await api.put(path, rewritten)
        assert answer.code == 422
        assert "what is recorded of an event does not change" in answer.json["message"]
        assert (await api.put(path, {**stored, "entries": [entry("c", result="Claimed")]})).code == 422
        assert (await api.put(path, {**stored, "entries": [entry("a"), entry("a")]})).code == 422
        assert (await api.put(path, {**stored, "entries": [entry(str(i)) for i in range(51)]})).code == 422
        # Old entries make room.
        shortened = (await api.put(path, {**stored, "entries": [entry("b", result="Failed")]})).expect(200)
        assert [one["eventUID"] for one in shortened["entries"]] == ["b"]
        table = (await api.with_headers(accept=TABLE).get(path)).expect(200)
        assert [column["name"] for column in table["columnDefinitions"]] == [
            "Name",
            "Last",
            "Result",
            "Completed",
            "Requested-By",
            "Message",
            "Age",
        ]
        assert table["rows"][0]["cells"][1:3] == ["node-drain", "Failed"]
    finally:
        (await api.delete(path)).expect(200)
