"""Descriptions of the main kinds and of the common fields, for `kubectl explain`. The texts are our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kube_fairlead.api.json_object import Json

__all__ = ["FIELDS", "KINDS", "describe_schema"]

KINDS: Final[Mapping[str, str]] = {
    "Binding": "Puts one pod on one node.",
    "CSIDriver": "What a storage driver can do and how it wants to be used.",
    "CSINode": "The storage drivers that run on a node.",
    "CSIStorageCapacity": "How much room a storage class has left in one part of the cluster.",
    "CertificateSigningRequest": "A request for a certificate, to be approved and then signed.",
    "ClusterRole": "A set of permissions that can be granted in the whole cluster or in any namespace.",
    "ClusterRoleBinding": "Grants a cluster role in the whole cluster.",
    "ConfigMap": "Configuration that pods read, as text or bytes; nothing secret.",
    "Container": "One container of a pod: its image, what it runs, and what it needs.",
    "ControllerRevision": "A frozen earlier state of a workload, kept so that it can be rolled back.",
    "CronJob": "Starts a job again and again, on a schedule.",
    "CustomResourceDefinition": "Adds a kind to the API: its names, its versions and their schemas.",
    "DaemonSet": "Runs one copy of a pod on every node that fits.",
    "DeleteOptions": "How an object is to be deleted.",
    "Deployment": "Runs a number of equal pods and replaces them step by step when their template changes.",
    "DeviceClass": "A kind of device that claims can ask for.",
    "EndpointSlice": "A part of the addresses behind a service.",
    "Endpoints": "All addresses behind a service, in one object.",
    "Event": "A note that something happened to an object. Kept for a while, then forgotten.",
    "Eviction": "Asks for a pod to be deleted, unless a disruption budget says that now is no good time.",
    "HorizontalPodAutoscaler": "Changes the number of replicas of a workload to follow a measurement.",
    "IPAddress": "An address of the service range that is taken, and by whom.",
    "Ingress": "Routes HTTP from outside to services, by host and path.",
    "IngressClass": "Which controller carries out an ingress.",
    "Job": "Runs pods until a number of them have succeeded.",
    "LabelSelector": "Chooses objects by their labels. Everything in it must hold; an empty one chooses all.",
    "Lease": "Who holds something, since when and until when: leader election and node heartbeats.",
    "LimitRange": "Limits and defaults for what pods and containers of a namespace may ask for.",
    "LocalSubjectAccessReview": "Asks whether a user may do something in one namespace.",
    "MutatingWebhookConfiguration": "Web hooks that may change objects before they are stored.",
    "Namespace": "A room for names: most objects live in one, and go when it goes.",
    "NetworkPolicy": "Which traffic the pods it chooses may send and receive.",
    "Node": "A machine that runs pods.",
    "ObjectMeta": "What every object has: name, labels, owners, versions and the marks of its deletion.",
    "PersistentVolume": "A piece of storage in the cluster.",
    "PersistentVolumeClaim": "A wish for storage, bound to a volume that fulfils it.",
    "Pod": "Containers that run together on one node.",
    "PodDisruptionBudget": "How many pods of a group may be away at the same time, for reasons that can wait.",
    "PodSpec": "What a pod runs and what it needs of its node.",
    "PodStatus": "What is known about a pod that runs. Written by its node.",
    "PodTemplate": "A pod to be made copies of.",
    "PriorityClass": "How important pods are to the scheduler, by name.",
    "ReplicaSet": "Keeps a number of equal pods running. Deployments make them.",
    "ReplicationController": "Keeps a number of equal pods running; the ancestor of ReplicaSet.",
    "ResourceClaim": "A wish for devices, and which ones were given.",
    "ResourceClaimTemplate": "A resource claim to be made for each pod.",
    "ResourceQuota": "How much a namespace may use in all.",
    "ResourceSlice": "Devices that a driver offers, on a node or in a pool.",
    "Role": "A set of permissions within one namespace.",
    "RoleBinding": "Grants a role, or a cluster role, within one namespace.",
    "RuntimeClass": "How the containers of a pod are run.",
    "Scale": "The number of replicas of a workload, wanted and present.",
    "Secret": "Small secrets that pods read: passwords, tokens, keys.",
    "SelfSubjectAccessReview": "Asks whether the caller may do something.",
    "SelfSubjectReview": "Asks who the caller is.",
    "SelfSubjectRulesReview": "Asks for everything the caller may do in a namespace.",
    "Service": "One stable address for many pods.",
    "ServiceAccount": "An identity for programs that run in pods.",
    "ServiceCIDR": "A range that service addresses are taken from.",
    "StatefulSet": "Runs numbered pods with stable names and storage of their own.",
    "Status": "What came of a request that has no object to show; every error is one.",
    "StorageClass": "A way to make volumes: by which driver, and with what parameters.",
    "SubjectAccessReview": "Asks whether a user may do something.",
    "TokenRequest": "Asks for a token of a service account.",
    "TokenReview": "Asks whose token this is.",
    "ValidatingAdmissionPolicy": "Rules in CEL that requests must meet.",
    "ValidatingAdmissionPolicyBinding": "Puts an admission policy to work, with its parameters and for its resources.",
    "ValidatingWebhookConfiguration": "Web hooks that may refuse requests.",
    "VolumeAttachment": "A volume attached to a node, or about to be.",
    "VolumeAttributesClass": "Attributes of a volume that may change while it is in use.",
}

FIELDS: Final[Mapping[str, str]] = {
    "apiVersion": "The group and version of this kind.",
    "items": "The objects of the list.",
    "kind": "What this object is.",
    "metadata": "Name, labels and what else every object has.",
    "spec": "What is wanted.",
    "status": "What is. Written by controllers, not by users.",
}


def describe_schema(model: str, schema: Json) -> Json:
    """Add the descriptions to a built-in type's schema."""
    kind = model.rpartition(".")[2]
    text = KINDS.get(kind)
    if text is None and kind.endswith("List"):
        text = f"A list of {kind.removesuffix('List')} objects."
    if text is not None:
        schema["description"] = text
    properties = schema.get("properties", {})
    if "metadata" not in properties:
        return schema
    for name, field_text in FIELDS.items():
        if name in properties:
            properties[name] = _described(properties[name], field_text)
    return schema


def _described(schema: Json, text: str) -> Json:
    if "$ref" in schema:
        return {"allOf": [schema], "description": text}
    return {"description": text, **schema}
