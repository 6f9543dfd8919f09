from __future__ import annotations

import pytest

from kube_fairlead.api.gvk import GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource


@pytest.mark.parametrize(
    ("text", "group", "version"),
    [("v1", "", "v1"), ("apps/v1", "apps", "v1"), ("", "", ""), ("/", "", ""), ("a/", "a", "")],
)
def test_api_versions(text: str, group: str, version: str) -> None:
    assert GroupVersion.parse(text) == GroupVersion(group, version)


def test_too_many_parts() -> None:
    with pytest.raises(ValueError, match="unexpected GroupVersion string: a/b/c"):
        GroupVersion.parse("a/b/c")
    assert GroupVersionKind.of("a/b/c", "K") == GroupVersionKind("", "", "K")


def test_forms() -> None:
    gvk = GroupVersionKind.of("apps/v1", "Deployment")
    assert (gvk.api_version, str(gvk), str(gvk.group_kind)) == (
        "apps/v1",
        "apps/v1, Kind=Deployment",
        "Deployment.apps",
    )
    gvr = GroupVersion("", "v1").resource("pods")
    assert (gvr.api_version, str(gvr), str(gvr.group_resource)) == ("v1", "/v1, Resource=pods", "pods")
    assert GroupVersionResource("apps", "v1", "deployments").group_version == gvk.group_version
    assert GroupKind("", "").empty
    assert GroupResource("", "").empty
    assert not GroupResource("", "pods").empty
    assert str(GroupVersion("apps", "v1")) == "apps/v1"
