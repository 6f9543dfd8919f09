"""Namespaces and what is configured in them: ConfigMaps, Secrets, ServiceAccounts.

Upstream: k8s.io/api@v0.36.4/core/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.core_v1.references import LocalObjectReference, ObjectReference
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import Part, Time, always, mapping

__all__ = [
    "Binding",
    "ConfigMap",
    "Namespace",
    "NamespaceCondition",
    "NamespaceSpec",
    "NamespaceStatus",
    "Secret",
    "ServiceAccount",
]


class ConfigMap(KubeObject):
    """Configuration as text; `binary_data` is base64."""

    api_version: str = always("v1")
    kind: str = always("ConfigMap")
    immutable: bool | None = None
    data: dict[str, str] = mapping()
    binary_data: dict[str, str] = mapping()


class Secret(KubeObject):
    """Confidential data; `data` is base64, `string_data` is for writing only."""

    api_version: str = always("v1")
    kind: str = always("Secret")
    immutable: bool | None = None
    data: dict[str, str] = mapping()
    string_data: dict[str, str] = mapping()
    type: str = ""


class NamespaceSpec(Part):
    """What holds a namespace until its content is gone."""

    finalizers: tuple[str, ...] = ()


class NamespaceCondition(Part):
    """Why a namespace is not gone yet."""

    MERGE_KEY = ("type",)

    type: str = ""
    status: str = ""
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class NamespaceStatus(Part):
    """Whether a namespace is Active or Terminating."""

    phase: str = ""
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(KubeObject):
    """A room for names."""

    api_version: str = always("v1")
    kind: str = always("Namespace")
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ServiceAccount(KubeObject):
    """The identity pods run under."""

    api_version: str = always("v1")
    kind: str = always("ServiceAccount")
    secrets: tuple[ObjectReference, ...] = ()
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    automount_service_account_token: bool | None = None


class Binding(KubeObject):
    """Ties a pod to a node; written by schedulers."""

    api_version: str = always("v1")
    kind: str = always("Binding")
    target: ObjectReference = ObjectReference()
