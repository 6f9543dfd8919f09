from __future__ import annotations

from fairlead.api.gvk import GroupResource
from fairlead.webhook import manifests
from fairlead.webhook.recorder import PATIENCE_SECONDS

RESOURCES = [
    GroupResource("vm.example.com", "virtualmachines"),
    GroupResource("db.example.com", "databases"),
    GroupResource("vm.example.com", "disks"),
    GroupResource("vm.example.com", "disks"),
]


def test_it_may_read_and_patch_what_is_named_and_nothing_else() -> None:
    account, role, binding = manifests.access_manifests(RESOURCES, namespace="here")
    assert role["rules"] == [
        {"apiGroups": ["vm.example.com"], "resources": ["virtualmachines", "disks"], "verbs": ["get", "patch"]},
        {"apiGroups": ["db.example.com"], "resources": ["databases"], "verbs": ["get", "patch"]},
    ]
    assert account["metadata"] == {"name": "fairlead-webhook", "namespace": "here"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "fairlead-webhook", "namespace": "here"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_it_is_called_for_deletes_only_and_never_in_the_way() -> None:
    (hook,) = manifests.registration(RESOURCES, namespace="here", authority=b"PEM")["webhooks"]
    assert {operation for rule in hook["rules"] for operation in rule["operations"]} == {"DELETE"}
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "NoneOnDryRun")
    assert hook["timeoutSeconds"] > PATIENCE_SECONDS
    assert hook["clientConfig"] == {
        "service": {"name": "fairlead-webhook", "namespace": "here", "path": "/delete"},
        "caBundle": "UEVN",
    }


def test_it_may_run_outside_of_the_cluster() -> None:
    (hook,) = manifests.registration(RESOURCES, url="https://10.0.0.1:9443/delete")["webhooks"]
    assert hook["clientConfig"] == {"url": "https://10.0.0.1:9443/delete"}
