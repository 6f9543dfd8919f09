"""The webhook's manifests: exactly the rights that it needs, and when the API server calls it."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.reserved import ANNOTATION_GRACE_DEADLINE
from kube_fairlead.webhook.server import EVICTION_PATH, PATH

__all__ = [
    "DELETION_NAME",
    "DELETION_REGISTRATION",
    "EVICTION_REGISTRATION",
    "NAME",
    "REGISTRATIONS",
    "access_manifests",
    "certificate_access",
    "eviction_manifests",
    "own_secret_name",
    "registration",
    "secret_name",
    "service",
    "service_name",
    "workload_manifests",
]


NAME = "fairlead-webhook"
"""What the account, the Service and the Deployment are called that judge evictions, as `fairlead install` has them."""
DELETION_NAME = "fairlead-deletion-webhook"
"""What they are called where they only record deletion grace: set up by itself, it replaces nothing of the other."""
DELETION_REGISTRATION = "fairlead-webhook"
"""The ValidatingWebhookConfiguration for deletes of custom resources."""
_HOOK = "deletion.grace.fairlead.dev"
_EVICTION_HOOK = "own-node.evictions.fairlead.dev"
_EVICTIONS = "fairlead-webhook-evictions"
EVICTION_REGISTRATION = _EVICTIONS
"""The one for evictions by drain drivers."""
REGISTRATIONS = (DELETION_REGISTRATION, EVICTION_REGISTRATION)
"""The ValidatingWebhookConfigurations that API servers find the webhook by."""
_PORT = 9443
_TLS_FOLDER = "/etc/fairlead/tls"
_RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1"}
# Who may see its metrics.
_DELEGATION = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]
# Each longer than the webhook's own patience: it answers before the API server gives up on it.
_TIMEOUT_SECONDS = 2
_EVICTION_TIMEOUT_SECONDS = 10

# Plain deletes that have nothing to correct, which are most of them, do not leave the API server at all.
_CONDITION = (
    "has(request.options.gracePeriodSeconds) || (has(oldObject.metadata.annotations) && "
    f"'{ANNOTATION_GRACE_DEADLINE}' in oldObject.metadata.annotations)"
)


def secret_name(name: str = NAME) -> str:
    """The Secret with a certificate that it is given."""
    return f"{name}-tls"


def own_secret_name(name: str = NAME) -> str:
    """The Secret with the certificates that it makes itself."""
    return f"{name}-certificates"


def access_manifests(resources: Sequence[GroupResource], *, namespace: str, name: str = NAME) -> list[Json]:
    """The service account and its rights: to read and annotate these custom resources, and to authenticate callers."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": [group], "resources": plurals, "verbs": ["get", "patch"]}
            for group, plurals in _by_group(resources).items()
        ]
        + _DELEGATION,
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    return [account, role, binding]


def certificate_access(namespace: str, *, registrations: Sequence[str], name: str = NAME) -> list[Json]:
    """What a webhook needs that makes its certificates itself: its Secret, and its registrations to be trusted by."""
    role = own_secret_name(name)
    secrets = {"apiGroups": [""], "resources": ["secrets"]}
    registered = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "resourceNames": list(registrations),
        "verbs": ["get", "patch"],
    }
    # A name cannot be demanded of what does not exist yet.
    rules = [{**secrets, "verbs": ["create"]}, {**secrets, "resourceNames": [role], "verbs": ["get", "update"]}]
    return [
        {**_RBAC, "kind": "Role", "metadata": {"name": role, "namespace": namespace}, "rules": rules},
        _bound("Role", {"name": role, "namespace": namespace}, name, namespace),
        {**_RBAC, "kind": "ClusterRole", "metadata": {"name": role}, "rules": [registered]},
        _bound("ClusterRole", {"name": role}, name, namespace),
    ]


def _bound(role: str, metadata: Json, account: str, namespace: str) -> Json:
    return {
        **_RBAC,
        "kind": f"{role}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def service_name(namespace: str, name: str = NAME) -> str:
    """The name by which API servers call the webhook's Service."""
    return f"{name}.{namespace}.svc"


def service(namespace: str, *, name: str = NAME) -> Json:
    """Where the API server finds it in the cluster."""
    labels = _labels(name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"selector": dict(labels), "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
    }


def workload_manifests(
    image: str, *, namespace: str, own_certificates: bool = False, registrations: Sequence[str] = (), name: str = NAME
) -> list[Json]:
    """Two replicas that a drain takes one at a time.

    Their certificate is in the Secret `NAME-tls`, or they make their certificates themselves and keep what API servers
    trust in these registrations.
    """
    labels = _labels(name)
    pod = _pod_spec(image, name)
    if own_certificates:
        _keeps_certificates(pod, namespace, name, registrations)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": dict(labels)}},
    }
    return [deployment, budget]


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name}


def _pod_spec(image: str, name: str) -> Json:
    return {
        "serviceAccountName": name,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # Where there is one worker, its drain must not wait for a second one.
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _labels(name)},
            }
        ],
        "containers": [
            {
                "name": "webhook",
                "image": image,
                "command": ["fairlead", "webhook"],
                "args": [
                    f"--secure-port={_PORT}",
                    f"--tls-cert-file={_TLS_FOLDER}/tls.crt",
                    f"--tls-private-key-file={_TLS_FOLDER}/tls.key",
                    "--logging-format=json",
                ],
                "ports": [{"name": "https", "containerPort": _PORT}],
                "livenessProbe": _probe("/livez"),
                "readinessProbe": _probe("/readyz"),
                "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
                "volumeMounts": [{"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True}],
            }
        ],
        "volumes": [{"name": "tls", "secret": {"secretName": secret_name(name)}}],
    }


def _keeps_certificates(pod: Json, namespace: str, name: str, registrations: Sequence[str]) -> None:
    [container] = pod["containers"]
    container["args"] = [
        f"--secure-port={_PORT}",
        f"--tls-secret={namespace}/{own_secret_name(name)}",
        f"--tls-name={service_name(namespace, name)}",
        *(f"--webhook-configuration={one}" for one in registrations),
        f"--cert-dir={_TLS_FOLDER}",
        "--logging-format=json",
    ]
    container["volumeMounts"] = [{"name": "tls", "mountPath": _TLS_FOLDER}]
    pod["volumes"] = [{"name": "tls", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    # A node that comes up needs evictions judged; the webhook must not wait for less urgent pods.
    pod["priorityClassName"] = "system-cluster-critical"


def _probe(path: str) -> Json:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, "periodSeconds": 10}


def registration(
    resources: Sequence[GroupResource],
    *,
    namespace: str = "",
    url: str = "",
    authority: bytes = b"",
    name: str = DELETION_NAME,
) -> Json:
    """The ValidatingWebhookConfiguration.

    Args:
        resources: the custom resources whose deletes it is shown.
        namespace: where its Service is, when it runs in the cluster.
        url: where it is, when it runs elsewhere.
        authority: PEM of the certificate that signed its own.
        name: its Service's.
    """
    where: Json = {"url": url} if url else {"service": {"name": name, "namespace": namespace, "path": PATH}}
    if authority:
        where["caBundle"] = base64.b64encode(authority).decode("ascii")
    rules = [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": ["DELETE"], "resources": plurals, "scope": "*"}
        for group, plurals in _by_group(resources).items()
    ]
    hook = {
        "name": _HOOK,
        "clientConfig": where,
        "rules": rules,
        "matchConditions": [{"name": "grace-or-note", "expression": _CONDITION}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        # A note that cannot be recorded must not block a delete.
        "failurePolicy": "Ignore",
        "timeoutSeconds": _TIMEOUT_SECONDS,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": DELETION_REGISTRATION},
        "webhooks": [hook],
    }


def eviction_manifests(
    accounts: Sequence[tuple[str, str]],
    *,
    namespace: str = "",
    url: str = "",
    authority: bytes = b"",
    requests: bool = True,
) -> list[Json]:
    """The right to look pods up, and the registration for evictions by these service accounts.

    Args:
        accounts: namespace and name of each whose evictions must come from the pod's own node.
        namespace: where the webhook runs; its account is there whether its Service is used or not.
        url: where it is, when the API server does not find it by its Service.
        authority: PEM of the certificate that signed its own.
        requests: whether EvictionRequests are judged too.
    """
    where: Json = {"url": url} if url else {"service": {"name": NAME, "namespace": namespace, "path": EVICTION_PATH}}
    if authority:
        where["caBundle"] = base64.b64encode(authority).decode("ascii")
    users = ", ".join(f"'system:serviceaccount:{space}:{name}'" for space, name in accounts)
    evictions = {"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods/eviction"]}
    # Kubernetes' own kind (1.37, alpha), which requests an eviction too.
    asked = {"apiGroups": ["lifecycle.k8s.io"], "operations": ["CREATE", "DELETE"], "resources": ["evictionrequests"]}
    judged = (evictions, asked) if requests else (evictions,)
    hook = {
        "name": _EVICTION_HOOK,
        "clientConfig": where,
        "rules": [{**rule, "apiVersions": ["*"], "scope": "Namespaced"} for rule in judged],
        # Evictions of other accounts do not depend on this webhook.
        "matchConditions": [{"name": "drivers", "expression": f"request.userInfo.username in [{users}]"}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": _EVICTION_TIMEOUT_SECONDS,
    }
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _EVICTIONS},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": _EVICTIONS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _EVICTIONS},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }
    registered = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": _EVICTIONS},
        "webhooks": [hook],
    }
    return [role, binding, registered]


def _by_group(resources: Sequence[GroupResource]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for resource in resources:
        plurals = groups.setdefault(resource.group, [])
        if resource.resource not in plurals:
            plurals.append(resource.resource)
    return groups
