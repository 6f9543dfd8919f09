from __future__ import annotations

from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.webhook import manifests
from kube_fairlead.webhook.grace_recorder import PATIENCE_SECONDS
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}
RESOURCES = [
    GroupResource("vm.example.com", "virtualmachines"),
    GroupResource("db.example.com", "databases"),
    GroupResource("vm.example.com", "disks"),
    GroupResource("vm.example.com", "disks"),
]


def test_it_may_read_and_patch_what_is_named_and_nothing_else() -> None:
    account, role, binding = manifests.access_manifests(RESOURCES, namespace="here")
    assert role["rules"][:2] == [
        {"apiGroups": ["vm.example.com"], "resources": ["virtualmachines", "disks"], "verbs": ["get", "patch"]},
        {"apiGroups": ["db.example.com"], "resources": ["databases"], "verbs": ["get", "patch"]},
    ]
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"][2:]] == [
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
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
        "service": {"name": "fairlead-deletion-webhook", "namespace": "here", "path": "/delete"},
        "caBundle": "UEVN",
    }


def test_it_may_run_outside_of_the_cluster() -> None:
    (hook,) = manifests.registration(RESOURCES, url="https://10.0.0.1:9443/delete")["webhooks"]
    assert hook["clientConfig"] == {"url": "https://10.0.0.1:9443/delete"}


def test_the_parts_fit_each_other() -> None:
    account, *_ = manifests.access_manifests(RESOURCES, namespace="here")
    service = manifests.service("here")
    deployment, budget = manifests.workload_manifests("example.com/fairlead:1", namespace="here")
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    selectors = [
        service["spec"]["selector"],
        *(made["spec"]["selector"]["matchLabels"] for made in (deployment, budget)),
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert template["spec"]["serviceAccountName"] == account["metadata"]["name"]
    (container,) = template["spec"]["containers"]
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    assert f"--secure-port={container['ports'][0]['containerPort']}" in container["args"]


async def test_an_api_server_takes_them(fairlead_shared_apiserver: EmbeddedControlPlane) -> None:
    namespace = "kube-system"
    documents = [
        *manifests.access_manifests(RESOURCES, namespace=namespace),
        manifests.service(namespace),
        *manifests.workload_manifests("example.com/fairlead:1", namespace=namespace),
        manifests.registration(RESOURCES, namespace=namespace),
    ]
    async with RawApi(fairlead_shared_apiserver.access()) as api:
        for document in documents:
            path = PATHS[document["kind"]].format(namespace=namespace)
            (await api.post(path, document, dryRun="All", fieldValidation="Strict")).expect(201)
