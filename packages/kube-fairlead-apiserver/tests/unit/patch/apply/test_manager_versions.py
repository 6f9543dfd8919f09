"""Changes in the terms of other versions."""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.patch.apply.manager_versions import Changes, Version, Versions
from kube_fairlead_apiserver.patch.apply.update_tracking import tracked_changes
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

Json = dict[str, Any]

OWN = SchemaNode(type="object", properties={"percent": SchemaNode(type="integer")})
OTHER = SchemaNode(type="object", properties={"share": SchemaNode(type="number")})
BEFORE, AFTER = {"metadata": {}, "percent": 50}, {"metadata": {}, "percent": 60}


def shared(obj: Json) -> Json:
    return {"metadata": obj["metadata"], "share": obj["percent"] / 100}


def changes(versions: Versions | None, before: Json = BEFORE) -> Changes:
    return tracked_changes("v2", OWN, before, AFTER, None, versions)


def test_each_version_sees_its_own_fields() -> None:
    seen = changes({"v2": Version(OWN), "v1": Version(OTHER, shared)})
    assert seen.own.modified == {"f:percent": {}}
    assert seen.of("v2") is seen.own
    older = seen.of("v1")
    assert older is not None
    assert older.modified == {"f:share": {}}
    assert seen.of("v1") is older


def test_what_is_not_there_is_not_converted() -> None:
    older = changes({"v1": Version(OTHER, shared)}, {}).of("v1")
    assert older is not None
    assert older.added == {"f:share": {}}


def test_versions_that_are_gone_or_alike() -> None:
    assert changes({"v2": Version(OWN)}).of("v1beta1") is None
    alike = changes(None)
    assert alike.of("v1beta1") is alike.own
    same = changes({"v1": Version(OWN), "v0": Version(ANYTHING)})
    assert same.of("v1") is same.own
    other = same.of("v0")
    assert other is not None
    assert other.modified == same.own.modified
