"""Subresources that are actions or have a kind of their own: evictions, bindings, tokens, scale."""

from __future__ import annotations

import dataclasses
from typing import Any

from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.client import requests, retry
from kube_fairlead.client.client import Client

__all__ = ["bind", "evict", "get_scale", "request_token", "set_scale"]

_PODS = GroupVersionResource("", "v1", "pods")
_SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")

# A blocked eviction has a Retry-After too; a drain must see the answer, not wait here.
_UNINVITED = dataclasses.replace(retry.DEFAULT, invited_retries=0)


async def evict(
    client: Client,
    name: str,
    *,
    namespace: str,
    uid: str = "",
    resource_version: str = "",
    grace_period_seconds: int | None = None,
    dry_run: bool = False,
) -> None:
    """Evict a pod, if its disruption budgets allow it.

    Raises:
        TooManyRequests: a budget does not allow it now (cause DisruptionBudget), or the server is busy.
        Conflict: the pod of this name is another one (uid).
        NotFound: there is no such pod.
    """
    options = requests.delete_body(
        grace_period_seconds=grace_period_seconds,
        uid=uid,
        resource_version=resource_version,
        dry_run=dry_run,
    )
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": options,
    }
    await _post(client.with_retry(_UNINVITED), _PODS, name, "eviction", body, namespace)


async def bind(client: Client, name: str, *, namespace: str, node: str, uid: str = "") -> None:
    """Put a pod on a node, as a scheduler does."""
    metadata = {"name": name, "namespace": namespace} | ({"uid": uid} if uid else {})
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await _post(client, _PODS, name, "binding", body, namespace)


async def request_token(
    client: Client,
    service_account: str,
    *,
    namespace: str,
    audiences: tuple[str, ...] = (),
    expiration_seconds: int | None = None,
    bound_to: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A token for a service account: the status of a TokenRequest, with `token` and `expirationTimestamp`."""
    spec: dict[str, Any] = {"audiences": list(audiences)}
    if expiration_seconds is not None:
        spec["expirationSeconds"] = expiration_seconds
    if bound_to is not None:
        spec["boundObjectRef"] = bound_to
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await _post(client, _SERVICE_ACCOUNTS, service_account, "token", body, namespace)
    status: dict[str, Any] = answer["status"]
    return status


async def get_scale(client: Client, gvr: GroupVersionResource, name: str, *, namespace: str) -> dict[str, Any]:
    """How many replicas a workload wants and has: an autoscaling/v1 Scale."""
    plain = client.of(gvr)
    return await plain.get(name, namespace=namespace, subresource="scale")


async def set_scale(
    client: Client, gvr: GroupVersionResource, name: str, replicas: int, *, namespace: str
) -> dict[str, Any]:
    """Want another number of replicas, whatever they were."""
    path = requests.resource_path(gvr, namespace=namespace, name=name, subresource="scale")
    response = await client.request(
        "PATCH",
        path,
        body={"spec": {"replicas": replicas}},
        content_type="application/merge-patch+json",
        resource=gvr.group_resource,
        name=name,
    )
    return client.of(gvr).resource.codec.decode(response.body)


async def _post(
    client: Client, gvr: GroupVersionResource, name: str, subresource: str, body: Any, namespace: str
) -> dict[str, Any]:
    path = requests.resource_path(gvr, namespace=namespace, name=name, subresource=subresource)
    response = await client.request("POST", path, body=body, resource=gvr.group_resource, name=name)
    return client.of(gvr).resource.codec.decode(response.body)
