"""Small, valid objects for tests, as the JSON that goes over the wire."""

from __future__ import annotations

from typing import Any

from kube_fairlead.api.json_object import Json

__all__ = ["config_map", "custom_resource_definition", "failure", "node", "pod", "secret", "success"]


def config_map(name: str, /, data: dict[str, str] | None = None, **metadata: Any) -> Json:
    """Return a ConfigMap; keywords go into its metadata."""
    made: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    if data is not None:
        made["data"] = data
    return made


def secret(name: str, /, data: dict[str, str] | None = None, **metadata: Any) -> Json:
    """Return a Secret of text. A new namespace has ConfigMaps but no Secrets.

    A list of Secrets has only those of the test.
    """
    made: Json = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}}
    if data is not None:
        made["stringData"] = data
    return made


def pod(name: str, /, node_name: str | None = None, spec: Json | None = None, **metadata: Any) -> Json:
    """Return a Pod with one container; bound to a node when one is named."""
    full: Json = {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}], **(spec or {})}
    if node_name is not None:
        full["nodeName"] = node_name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": full}


def node(name: str, /, **metadata: Any) -> Json:
    """Return a Node without status."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def custom_resource_definition(
    plural: str,
    group: str,
    *,
    kind: str,
    spec_schema: Json | None = None,
    schema: Json | None = None,
    scope: str = "Namespaced",
    version: Json | None = None,
) -> Json:
    """Return a CustomResourceDefinition with one version, v1.

    The schema is free below `spec` and `status` when none is given; `version` is merged into the version's entry.
    """
    free: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    whole: Json = schema or {"type": "object", "properties": {"spec": spec_schema or free, "status": free}}
    entry: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": whole},
        **(version or {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [entry],
        },
    }


def failure(code: int, reason: str, message: str, details: Json | None = None) -> Json:
    """Return the whole Status body of a rejected request."""
    status: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if details is not None:
        status["details"] = details
    return status


def success(details: Json) -> Json:
    """Return the whole Status body of a finished deletion."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
