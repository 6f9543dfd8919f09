"""apiextensions.k8s.io/v1: definitions of custom resources. Schemas stay plain JSON.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/v1/types.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import Part, Time, always, named

__all__ = [
    "CustomResourceColumnDefinition",
    "CustomResourceDefinition",
    "CustomResourceDefinitionCondition",
    "CustomResourceDefinitionNames",
    "CustomResourceDefinitionSpec",
    "CustomResourceDefinitionStatus",
    "CustomResourceDefinitionVersion",
    "CustomResourceSubresourceScale",
    "CustomResourceSubresources",
    "CustomResourceValidation",
    "SelectableField",
]


class CustomResourceDefinitionNames(Part):
    """What the resource is called."""

    plural: str = always("")
    singular: str = ""
    short_names: tuple[str, ...] = ()
    kind: str = always("")
    list_kind: str = ""
    categories: tuple[str, ...] = ()


class CustomResourceValidation(Part):
    """The structural schema."""

    open_api_v3_schema: Any = named("openAPIV3Schema", None)


class CustomResourceSubresourceScale(Part):
    """Where the number of replicas is kept."""

    spec_replicas_path: str = always("")
    status_replicas_path: str = always("")
    label_selector_path: str | None = None


class CustomResourceSubresources(Part):
    """Which parts have a URL of their own; an empty object switches `status` on."""

    status: Any = None
    scale: CustomResourceSubresourceScale | None = None


class CustomResourceColumnDefinition(Part):
    """A column that `kubectl get` prints."""

    name: str = always("")
    type: str = always("")
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = always("", name="jsonPath")


class SelectableField(Part):
    """A field that field selectors know."""

    json_path: str = always("", name="jsonPath")


class CustomResourceDefinitionVersion(Part):
    """One version of the resource."""

    MERGE_KEY = ("name",)

    name: str = always("")
    served: bool = always(False)
    storage: bool = always(False)
    deprecated: bool = False
    deprecation_warning: str | None = None
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additional_printer_columns: tuple[CustomResourceColumnDefinition, ...] = ()
    selectable_fields: tuple[SelectableField, ...] = ()


class CustomResourceDefinitionSpec(Part):
    """What a resource should be."""

    group: str = always("")
    names: CustomResourceDefinitionNames = always(CustomResourceDefinitionNames())
    scope: str = always("")
    versions: tuple[CustomResourceDefinitionVersion, ...] = always(())
    conversion: Any = None
    preserve_unknown_fields: bool = False


class CustomResourceDefinitionCondition(Part):
    """One aspect of a definition's state."""

    MERGE_KEY = ("type",)

    type: str = ""
    status: str = ""
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class CustomResourceDefinitionStatus(Part):
    """What a resource is."""

    conditions: tuple[CustomResourceDefinitionCondition, ...] = ()
    accepted_names: CustomResourceDefinitionNames = CustomResourceDefinitionNames()
    stored_versions: tuple[str, ...] = ()
    observed_generation: int = 0


class CustomResourceDefinition(KubeObject):
    """Makes a new resource known to the API server."""

    api_version: str = always("apiextensions.k8s.io/v1")
    kind: str = always("CustomResourceDefinition")
    spec: CustomResourceDefinitionSpec = always(CustomResourceDefinitionSpec())
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()
