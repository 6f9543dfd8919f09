"""Which custom resources are shown as they are stored, and what becomes of the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_fairlead_apiserver.crd.definition import CustomResourceKind, compile_kinds
from kube_fairlead_apiserver.registry import custom_versions
from kube_fairlead_apiserver.registry.custom_versions import CustomVersion, CustomVersions
from kube_fairlead_apiserver.storage.entries import HEAD, Entry, Origin
from kube_fairlead_lab.testing.manifests import custom_resource_definition

TEXT = {"type": "string"}
V1 = {"color": TEXT, "m": {**TEXT, "default": "m"}}
BETA = {"color": TEXT, "old": {**TEXT, "default": "o"}}


def kinds(**versions: dict[str, Any]) -> dict[str, CustomResourceKind]:
    """By version the properties of its spec; the first is stored."""
    crd = custom_resource_definition("widgets", "g.io", kind="Widget")
    crd["spec"]["versions"] = [
        {
            "name": name,
            "served": True,
            "storage": number == 0,
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": properties}},
                }
            },
        }
        for number, (name, properties) in enumerate(versions.items())
    ]
    return compile_kinds(crd)


def entry(origin: Origin | None, **spec: str) -> Entry:
    value = msgspec.json.encode({"metadata": {"name": "a"}, "spec": spec})
    return Entry("ns/a", 5, value[len(HEAD) :], {}, {}, origin)


def spec_of(shown: Entry) -> Any:
    return msgspec.json.decode(shown.value)["spec"]


def custom_version(versions: CustomVersions, version: str = "v1") -> CustomVersion:
    return CustomVersion(versions.kinds[version], versions)


def test_what_the_schema_itself_wrote_is_shown_as_it_is_stored() -> None:
    versions = CustomVersions(kinds(v1=V1), unchanged=False)
    stored = entry(versions.origin, unknown="never looked at")
    assert custom_version(versions).shown(stored) is stored
    assert custom_version(versions).keeps(stored, {})


@pytest.mark.parametrize("origin", [None, Origin("v1")])
def test_a_definition_that_was_never_changed_wrote_everything(origin: Origin | None) -> None:
    versions = CustomVersions(kinds(v1=V1), unchanged=True)
    stored = entry(origin, unknown="never looked at")
    assert custom_version(versions).shown(stored) is stored


@pytest.mark.parametrize("origin", [None, Origin("v1")])
def test_what_another_schema_wrote_is_shown_by_this_one(origin: Origin | None) -> None:
    made = custom_version(CustomVersions(kinds(v1=V1), unchanged=False))
    stored = entry(origin, color="red", gone="x")
    shown = made.shown(stored)
    assert (shown.key, shown.revision, spec_of(shown)) == ("ns/a", 5, {"color": "red", "m": "m"})
    assert made.shown(stored.at(9)).tail is shown.tail, "it is made once"
    same = entry(origin, color="red", m="m")
    assert made.shown(same) is same


def test_an_unchanged_object_is_written_when_that_changes_what_is_stored() -> None:
    versions = CustomVersions(kinds(v1=V1, v1beta1=BETA), unchanged=False)
    obj = {"kind": "Widget", "metadata": {"name": "a", "resourceVersion": "5"}, "spec": {"color": "red", "m": "m"}}
    assert custom_version(versions).keeps(entry(Origin("v1"), color="red", m="m"), obj)
    assert not custom_version(versions).keeps(entry(Origin("v1"), color="red"), obj)
    assert not custom_version(versions).keeps(entry(Origin("v1beta1"), color="red", m="m"), obj)
    seen = {**obj, "spec": {"color": "red"}}
    assert custom_version(versions, "v1beta1").keeps(entry(versions.origin, color="red", m="m"), seen)
    assert not custom_version(versions, "v1beta1").keeps(entry(versions.origin, color="red", m="other"), seen)


def test_each_version_shows_its_own_fields() -> None:
    versions = CustomVersions(kinds(v1=V1, v1beta1=BETA), unchanged=True)
    assert spec_of(custom_version(versions, "v1beta1").shown(entry(versions.origin, color="red", m="m"))) == {
        "color": "red"
    }
    stored_as_beta = entry(Origin("v1beta1"), color="red", old="z", m="never valid")
    changed = CustomVersions(versions.kinds, unchanged=False)
    assert spec_of(custom_version(changed).shown(stored_as_beta)) == {"color": "red"}
    assert spec_of(custom_version(changed, "v1beta1").shown(stored_as_beta)) == {"color": "red", "old": "z"}


def test_another_version_stores_what_the_storage_version_knows() -> None:
    made = custom_version(CustomVersions(kinds(v1=V1, v1beta1=BETA), unchanged=True), "v1beta1")
    obj = {"metadata": {"name": "a"}, "spec": {"color": "red", "old": "z"}}
    assert made.stored(obj)["spec"] == {"color": "red", "m": "m"}
    assert made.returned(obj)["spec"] == {"color": "red"}
    assert obj["spec"] == {"color": "red", "old": "z"}


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custom_versions, "_REMEMBERED_BYTES", 1000)
    made = custom_version(CustomVersions(kinds(v1=V1), unchanged=False))
    first, *others = (entry(None, color=str(number) * 100) for number in range(9))
    tail = made.shown(first).tail
    assert made.shown(first).tail is tail
    for other in others:
        made.shown(other)
    again = made.shown(first).tail
    assert again == tail
    assert again is not tail
