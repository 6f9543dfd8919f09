"""What must not change: namespaces and definitions end, built-in kinds know no grace, controllers may ignore it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, RawApi
from tests.spec.kep5673.objects import CRDS, FINALIZER, Deadline, Kind, near


async def test_a_namespace_with_such_objects_still_terminates(
    api: RawApi, kind: Kind, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("ending")
    here = f"/api/v1/namespaces/{name}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    there = dataclasses.replace(kind, namespace=name)
    await there.create("graceful", FINALIZER)
    await there.create("fresh", FINALIZER)
    await there.create("free")
    await there.delete("graceful", 100_000)
    async with api.watch("/api/v1/namespaces", fieldSelector=f"metadata.name={name}") as watch:
        (await api.delete(here)).expect(200)
        # The namespace asks everything in it to go, says what it waits for, and grants nobody more or less time.
        waiting = await watch.until(lambda event: "finalizers" in str(event["object"].get("status", {})))
        assert waiting["object"]["status"]["phase"] == "Terminating"
        assert await there.deadline("graceful") == Deadline(near(100_000), 100_000)
        assert (await there.deadline("fresh")).seconds is None
        assert await there.is_gone("free")
        for left in ("graceful", "fresh"):
            await there.set_finalizers(left)
            assert await there.is_gone(left)
        await watch.until(lambda event: event["type"] == "DELETED")


async def test_a_definition_with_such_objects_still_ends(api: RawApi, kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    await kind.delete("a", 100_000)
    definition = f"{CRDS}/{kind.plural}.{kind.group}"
    (await api.delete(definition)).expect(200)
    assert await kind.deadline("a") == Deadline(near(100_000), 100_000)
    await kind.set_finalizers("a")
    await api.poll(definition, lambda answer: answer.code == 404)


@pytest.mark.parametrize("grace", [None, 0, 300])
async def test_built_in_kinds_know_no_grace(api: RawApi, namespace: str, grace: int | None) -> None:
    """As ever: finalizers hold them, the grace is stored as 0, and a pod's own rule is a pod's."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    (await api.post(path, config_map("a", finalizers=[FINALIZER]))).expect(201)
    options = None if grace is None else {"gracePeriodSeconds": grace}
    deleted = (await api.delete(f"{path}/a", options)).expect(200)
    assert Deadline.of(deleted) == Deadline(near(), 0)
    (await api.patch(f"{path}/a", {"metadata": {"finalizers": None}})).expect(200)
    (await api.get(f"{path}/a")).expect(404)


@pytest.mark.parametrize("grace", [None, 0, 300])
async def test_a_controller_that_ignores_the_field_works_as_before(kind: Kind, grace: int | None) -> None:
    """Clean-up begins when the deletion shows, and its end is the object's: nobody waits for a deadline."""
    made = await kind.create("a", FINALIZER)
    async with kind.api.watch(kind.path(), resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        await kind.delete("a", grace)
        seen = await watch.until(lambda event: "deletionTimestamp" in event["object"]["metadata"])
        left = [name for name in seen["object"]["metadata"]["finalizers"] if name != FINALIZER]
        written = {**seen["object"], "metadata": {**seen["object"]["metadata"], "finalizers": left}}
        (await kind.api.put(kind.path("a"), written)).expect(200)
        assert (await watch.next())["type"] == "DELETED"


@pytest.mark.parametrize("way", ["merge patch", "json patch", "apply", "replace"])
async def test_the_last_finalizer_gone_is_the_object_gone(kind: Kind, way: str) -> None:
    """However it is taken away, and whatever time is left."""
    applied = {"apiVersion": f"{kind.group}/v1", "kind": kind.kind, "metadata": {"name": "a"}}
    held = {**applied, "metadata": {"name": "a", "finalizers": [FINALIZER]}}
    (await kind.api.apply(kind.path("a"), held, "controller")).expect(201)
    deleted = (await kind.delete("a", 100_000)).expect(200)
    if way == "merge patch":
        await kind.set_finalizers("a")
    elif way == "json patch":
        operations = [{"op": "remove", "path": "/metadata/finalizers/0"}]
        (await kind.api.patch(kind.path("a"), operations, JSON_PATCH)).expect(200)
    elif way == "apply":
        (await kind.api.apply(kind.path("a"), applied, "controller")).expect(200)
    else:
        freed = {**deleted, "metadata": {**deleted["metadata"], "finalizers": []}}
        (await kind.api.put(kind.path("a"), freed)).expect(200)
    assert await kind.is_gone("a")
