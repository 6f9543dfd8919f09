from __future__ import annotations

import subprocess
import sys

import pytest

from kube_fairlead.api import core_v1, events_v1, reserved, wire
from kube_fairlead.api.gvk import GroupVersionKind, GroupVersionResource
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.scheme import Kind, Scheme

SCHEME = Scheme()


@pytest.mark.parametrize("kind", list(SCHEME), ids=lambda kind: str(kind.gvk))
def test_every_kind_is_found_every_way_and_says_the_same(kind: Kind) -> None:
    assert SCHEME.by_resource(kind.gvr) is kind
    assert SCHEME.by_class(kind.cls) is kind
    fresh = kind.cls()
    assert (fresh.api_version, fresh.kind) == (kind.api_version, kind.gvk.kind)
    assert wire.decode(kind.cls, wire.encode(fresh)) == fresh


def test_equal_names_in_different_groups_are_kept_apart() -> None:
    assert SCHEME.by_class(core_v1.Event).gvk == GroupVersionKind("", "v1", "Event")
    assert SCHEME.by_class(events_v1.Event).gvk == GroupVersionKind("events.k8s.io", "v1", "Event")


def test_the_lifecycle_group_is_a_setting() -> None:
    other = Scheme(lifecycle_group=reserved.LIFECYCLE_GROUP_ALTERNATIVE)
    assert other.by_class(LifecycleEvent).api_version == "lifecycle.fairlead.dev/v1alpha1"
    resource = GroupVersionResource("lifecycle.fairlead.dev", "v1alpha1", "lifecycleevents")
    assert other.by_resource(resource).cls is LifecycleEvent
    with pytest.raises(KeyError):
        other.by_resource(GroupVersionResource("lifecycle.k8s.io", "v1alpha1", "lifecycleevents"))
    assert not SCHEME.by_class(LifecycleEvent).namespaced


def test_knowing_the_kinds_imports_none_of_them() -> None:
    code = "import sys, kube_fairlead.api.scheme as s; s.Scheme(); sys.exit('kube_fairlead.api.core_v1' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_which_kinds_are_in_the_group_that_is_a_setting() -> None:
    scheme = Scheme("lifecycle.example.com")
    assert [kind.gvk.kind for kind in scheme if scheme.is_lifecycle(kind)] == [
        "LifecycleEvent",
        "LifecycleTransition",
        "NodeLifecycleRecord",
    ]
