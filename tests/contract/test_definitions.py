"""The life of a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import RawApi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Define = Callable[..., Awaitable[Any]]


async def test_conditions_and_defaults(api: RawApi, define: Define) -> None:
    widgets = await define(shared=True)
    made = (await api.get(widgets.definition)).expect(200)
    conditions = {entry["type"]: (entry["status"], entry["reason"]) for entry in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted")}
    assert made["status"]["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["spec"]["conversion"] == {"strategy": "None"}


async def test_instances(api: RawApi, define: Define) -> None:
    widgets = await define(shared=True)
    made = (await api.post(widgets.path(), widgets.make("a", {"size": 1}))).expect(201)
    assert (made["apiVersion"], made["kind"]) == (f"{widgets.group}/v1", "Widget")
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["namespace"] == widgets.namespace
    listed = (await api.get(widgets.path())).expect(200)
    assert (listed["apiVersion"], listed["kind"]) == (f"{widgets.group}/v1", "WidgetList")
    assert listed["items"] == [made]  # unlike built-in kinds, each says its kind
    changed = (await api.patch(f"{widgets.path()}/a", {"spec": {"size": 2}})).expect(200)
    assert changed["metadata"]["generation"] == 2
    (await api.delete(f"{widgets.path()}/a")).expect(200)


async def test_whoever_uses_a_deprecated_version_is_told(api: RawApi, define: Define) -> None:
    defined = await define(version={"deprecated": True, "deprecationWarning": "use another"})
    (await api.post(defined.path(), defined.make("a"))).expect(201)
    for answer in (
        await api.get(f"{defined.path()}/a"),
        await api.patch(f"{defined.path()}/a", {"spec": {"size": 1}}),
        await api.apply(f"{defined.path()}/a", defined.make("a", {"color": "red"}), "me"),
    ):
        assert answer.code == 200
        assert [value for name, value in answer.headers.items() if name.lower() == "warning"] == ['299 - "use another"']


async def test_missing_and_existing_instances_are_named_with_their_group(api: RawApi, define: Define) -> None:
    widgets = await define(shared=True)
    status = (await api.get(f"{widgets.path()}/a")).expect(404)
    assert status["message"] == f'widgets.{widgets.group} "a" not found'
    assert status["details"] == {"name": "a", "group": widgets.group, "kind": "widgets"}
    (await api.post(widgets.path(), widgets.make("a"))).expect(201)
    status = (await api.post(widgets.path(), widgets.make("a"))).expect(409)
    assert status["message"] == f'widgets.{widgets.group} "a" already exists'


async def test_an_instance_must_say_what_it_is(api: RawApi, define: Define) -> None:
    widgets = await define(shared=True)
    nothing = (await api.post(widgets.path(), {"metadata": {"name": "a"}})).expect(400)
    assert nothing["reason"] == "BadRequest"
    other = (await api.post(widgets.path(), {**widgets.make("a"), "kind": "Gadget"})).expect(422)
    assert other["message"] == (f'Gadget.{widgets.group} "a" is invalid: kind: Invalid value: "Gadget": must be Widget')


async def test_cluster_scope(api: RawApi, define: Define) -> None:
    widgets = await define(scope="Cluster")
    (await api.post(widgets.cluster_path(), widgets.make("a"))).expect(201)
    assert "namespace" not in (await api.get(f"{widgets.cluster_path()}/a")).expect(200)["metadata"]
    assert (await api.get(widgets.path())).code == 404


async def test_strategic_patches_are_not_for_custom_resources(api: RawApi, define: Define) -> None:
    widgets = await define(shared=True)
    (await api.post(widgets.path(), widgets.make("a"))).expect(201)
    answer = await api.patch(f"{widgets.path()}/a", {}, "application/strategic-merge-patch+json")
    assert answer.expect(415)["reason"] == "UnsupportedMediaType"


async def test_deleting_a_definition_deletes_its_instances(api: RawApi, define: Define) -> None:
    widgets = await define()
    held = (await api.post(widgets.path(), widgets.make("held", finalizers=["example.com/hold"]))).expect(201)
    (await api.post(widgets.path(), widgets.make("free"))).expect(201)
    here = {"fieldSelector": f"metadata.name={widgets.name}"}
    async with api.watch(CRDS, resourceVersion=held["metadata"]["resourceVersion"], **here) as watch:
        marked = (await api.delete(widgets.definition)).expect(200)
        assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        await watch.until(
            lambda event: _condition(event["object"], "Terminating") == ("True", "InstanceDeletionInProgress")
        )
        status = (await api.post(widgets.path(), widgets.make("late"))).expect(403)
        assert status["message"] == (
            f'widgets.{widgets.group} "late" is forbidden: create not allowed while custom resource definition is '
            "terminating"
        )
        await api.poll(f"{widgets.path()}/free", lambda answer: answer.code == 404)
        (await api.patch(f"{widgets.path()}/held", {"metadata": {"finalizers": None}})).expect(200)
        await watch.until(lambda event: event["type"] == "DELETED")
    await api.poll(widgets.path(), lambda answer: answer.code == 404)


def _condition(definition: dict[str, Any], kind: str) -> tuple[str, str] | None:
    for entry in definition["status"]["conditions"] or []:
        if entry["type"] == kind:
            return entry["status"], entry["reason"]
    return None


def _without(manifest: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        del manifest["spec"]["versions"][0][key]
    return manifest


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (lambda made: made["metadata"].update(name="wrong.example.com"), {"metadata.name"}),
        (lambda made: made["spec"]["names"].update(plural="Widgets"), {"metadata.name", "spec.names.plural"}),
        (lambda made: made["spec"]["versions"][0].update(storage=False), {"spec.versions"}),
        (lambda made: made["spec"]["versions"][0].pop("schema"), {"spec.versions[0].schema.openAPIV3Schema"}),
        (lambda made: made["spec"].update(scope="Galactic"), {"spec.scope"}),
        (lambda made: made["spec"].update(versions=[]), {"spec.versions"}),
        (
            lambda made: made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(
                spec={"type": "object", "properties": {"x": {}}}
            ),
            {"spec.validation.openAPIV3Schema.properties[spec].properties[x].type"},
        ),
        (lambda made: made["spec"].update(preserveUnknownFields=True), {"spec.preserveUnknownFields"}),
    ],
)
async def test_definitions_that_are_refused(
    api: RawApi, change: Callable[[dict[str, Any]], object], fields: set[str]
) -> None:
    manifest = custom_resource_definition("widgets", "refused.example.com", kind="Widget")
    change(manifest)
    status = (await api.post(CRDS, manifest)).expect(422)
    found = {cause["field"] for cause in status["details"]["causes"]}
    assert fields <= found, found


async def test_a_protected_group_needs_approval(api: RawApi) -> None:
    manifest = custom_resource_definition("widgets", "tests.k8s.io", kind="Widget")
    status = (await api.post(CRDS, manifest)).expect(422)
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        "metadata.annotations[api-approved.kubernetes.io]"
    ]
    manifest["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experimental-only"}
    made = (await api.post(CRDS, manifest, dryRun="All")).expect(201)
    assert made["spec"]["group"] == "tests.k8s.io"


async def test_two_definitions_cannot_share_names(api: RawApi, define: Define) -> None:
    widgets = await define()
    manifest = custom_resource_definition("others", widgets.group, kind="Widget")
    (await api.post(CRDS, manifest)).expect(201)
    name = manifest["metadata"]["name"]
    try:
        async with api.watch(CRDS, fieldSelector=f"metadata.name={name}") as watch:
            event = await watch.until(lambda event: _condition(event["object"], "NamesAccepted") is not None)
        assert _condition(event["object"], "NamesAccepted") == ("False", "ListKindConflict")
        assert _condition(event["object"], "Established") == ("False", "NotAccepted")
    finally:
        (await api.delete(f"{CRDS}/{name}")).expect(200)
