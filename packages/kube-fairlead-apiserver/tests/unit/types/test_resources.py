from __future__ import annotations

import subprocess
import sys

from kube_fairlead.api.gvk import GroupVersionKind, GroupVersionResource
from kube_fairlead_apiserver.types.resources import builtin_resources, source_version, storage_version_hash
from kube_fairlead_apiserver.types.schemas import type_name

BY_NAME = {resource.gvr: resource for resource in builtin_resources()}


def test_the_table_says_what_it_was_made_from() -> None:
    assert source_version().startswith("v1.36.")


def test_a_resource_with_subresources_of_other_groups() -> None:
    pods = BY_NAME[GroupVersionResource("", "v1", "pods")]
    assert pods.namespaced
    assert pods.list_kind == "PodList"
    assert pods.short_names == ("po",)
    assert pods.categories == ("all",)
    assert pods.subresources["eviction"].gvk == GroupVersionKind("policy", "v1", "Eviction")
    assert pods.subresources["binding"].gvk == GroupVersionKind("", "v1", "Binding")
    assert pods.subresources["status"].verbs == ("get", "patch", "update")
    assert not {"exec", "log", "proxy"} & pods.subresources.keys()


def test_reviews_can_only_be_created() -> None:
    review = BY_NAME[GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")]
    assert review.verbs == ("create",)
    assert review.list_kind == ""
    assert review.storage_version_hash == ""


def test_the_kinds_that_controllers_and_schedulers_watch_are_there() -> None:
    expected = {
        ("", "v1", "nodes"),
        ("apps", "v1", "daemonsets"),
        ("autoscaling", "v2", "horizontalpodautoscalers"),
        ("batch", "v1", "cronjobs"),
        ("certificates.k8s.io", "v1", "certificatesigningrequests"),
        ("coordination.k8s.io", "v1", "leases"),
        ("discovery.k8s.io", "v1", "endpointslices"),
        ("networking.k8s.io", "v1", "servicecidrs"),
        ("policy", "v1", "poddisruptionbudgets"),
        ("resource.k8s.io", "v1", "resourceslices"),
        ("storage.k8s.io", "v1", "csistoragecapacities"),
        ("storage.k8s.io", "v1", "volumeattributesclasses"),
    }
    assert expected <= {(found.group, found.version, found.resource) for found in BY_NAME}


def test_every_kind_in_the_table_has_a_type() -> None:
    for resource in builtin_resources():
        assert type_name(resource.gvk)
        assert not resource.list_kind or type_name(resource.gvk.group_version.kind(resource.list_kind))
        for sub in resource.subresources.values():
            assert type_name(sub.gvk), sub


def test_storage_version_hashes_are_those_of_kubernetes() -> None:
    # As a kube-apiserver 1.36 shows them in discovery.
    assert storage_version_hash(GroupVersionKind("", "v1", "Pod")) == "xPOwRZ+Yhw8="
    assert storage_version_hash(GroupVersionKind("apps", "v1", "Deployment")) == "8aSe+NMegvE="


def test_what_is_needed_at_start_is_small() -> None:
    """The table of resources is read at start; the schemas behind it only when somebody asks for one."""
    script = """
import kube_fairlead.api.gvk, kube_fairlead_apiserver.schema.model, hashlib, msgspec
def rss(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1])
before = rss()
from kube_fairlead_apiserver.types import resources, schemas
resources.builtin_resources()
print(rss() - before)
"""
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert int(output) < 5_000
