"""Paths of requests, generated: kinds by scopes by subresources, tidy and untidy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

GROUP = "parity.example.com"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")

# The root of each kind, its plural name, and words to stand where a subresource does.
_KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "/api/v1": {
        "pods": ("status", "eviction", "binding", "ephemeralcontainers", "resize", "scale"),
        "configmaps": ("status",),
        "serviceaccounts": ("token",),
        "nodes": ("status",),
        "namespaces": ("status", "finalize", "scale"),
        "persistentvolumes": ("status",),
        "bindings": (),
        "nothings": ("status",),
    },
    "/apis/apps/v1": {"deployments": ("status", "scale"), "controllerrevisions": ()},
    "/apis/rbac.authorization.k8s.io/v1": {"clusterroles": (), "roles": ("status",)},
    "/apis/authorization.k8s.io/v1": {"subjectaccessreviews": (), "localsubjectaccessreviews": ()},
    "/apis/certificates.k8s.io/v1": {"certificatesigningrequests": ("status", "approval")},
    "/apis/coordination.k8s.io/v1": {"leases": ()},
    f"/apis/{GROUP}/v1": {"widgets": ("status", "scale", "nothing"), "regions": ("status",)},
}

# What may stand before a resource.
_SCOPES = ("", "namespaces/default/", "namespaces/absent/", "namespaces//", "namespaces/default/namespaces/default/")
_PREFIXES = ("", "watch/", "proxy/")

# Ways to write a path that mean another one, or the same.
_UNTIDY = (
    "//api/v1/pods",
    "///api/v1/namespaces/default/pods",
    "/api//v1/pods",
    "/api/v1//pods",
    "/api/v1//namespaces/default",
    "/api/v1/pods/",
    "/api/v1/pods//",
    "/api/v1/nodes/",
    "/api/v1/nodes//",
    "/api/v1/nodes//status",
    "/api/v1/namespaces/",
    "/api/v1/namespaces/default/",
    "/api/v1/namespaces/default//",
    "/api/v1/namespaces/default//default",
    "/api/v1/namespaces/default/pods/",
    "/api/v1/namespaces/default/pods//",
    "/api/v1/namespaces/default/pods//status",
    "/api/v1/namespaces/default/pods/absent/",
    "/api/v1/namespaces/default/pods/absent//",
    "/api/v1/namespaces/default/pods/absent/status/",
    "/api/v1/namespaces/default/pods/absent/status/more",
    "/api/v1/namespaces/default/pods/absent/status/more/still",
    "/api/v1/namespaces/default/status",
    "/api/v1/namespaces/default/status/absent",
    "/api/v1/namespaces/default/status/absent/status",
    "/api/v1/namespaces/default/finalize/absent",
    "/api/v1/namespaces/default/finalize/status",
    "/api/v1/namespaces/status",
    "/api/v1/namespaces/status/status",
    "/api/v1/namespaces/finalize/pods",
    "/api/v1/namespaces/namespaces",
    "/api/v1/namespaces/namespaces/namespaces",
    "/api/v1/namespaces/namespaces/namespaces/namespaces",
    "/api/v1/namespaces/default/namespaces",
    "/api/v1/namespaces/default/namespaces/kube-system",
    "/api/v1/namespaces/default/namespaces/kube-system/finalize",
    "/api/v1/namespaces/default/namespaces/kube-system/pods",
    "/api/v1/namespaces/default/namespaces/kube-system/pods/absent",
    "/api/v1/namespaces/default%2Fnamespaces%2Fkube-system",
    "/api/v1/namespaces/default%2Fpods",
    "/api/v1/namespaces%2Fdefault/pods",
    "/api/v1%2Fnamespaces/default",
    "/api%2Fv1/namespaces/default",
    "%2Fapi/v1/pods",
    "/%2Fapi/v1/pods",
    "/api/v1/namespaces/%64efault",
    "/api/v1/n%61mespaces/default/namespaces/kube-system",
    "/api/v1/namespaces/default/../kube-system",
    "/api/v1/namespaces/default/pods/../namespaces/kube-system",
    "/api/v1/namespaces/./default",
    "/api/v1/namespaces/../nodes",
    "/api/v1/namespaces/%2e%2e/nodes",
    "/api/v1/namespaces/default/%2e%2e/kube-system",
    "/api/v1/namespaces/default/pods/%2e",
    "/api/v1/namespaces/default/pods/%2E%2E",
    "/api/v1/./pods",
    "/api/v1/namespaces/default/pods/a%20b",
    "/api/v1/namespaces/default/pods/a%00b",
    "/api/v1/namespaces/default/pods/a%25b",
    "/api/v1/namespaces/default/pods/a%2525b",
    "/api/v1/namespaces/default/pods/%C3%A4",
    "/api/v1/namespaces/default/pods/a+b",
    "/api/v1/namespaces/default/pods/a;b=c",
    "/api/v1/namespaces/default/pods/a%",
    "/api/v1/namespaces/default/pods/a%zz",
    "/api/v1/namespaces/%/pods",
    "/api/v1/watch/watch/pods",
    "/api/v1/watch/namespaces",
    "/api/v1/watch/namespaces/default",
    "/api/v1/watch/namespaces/default/status",
    "/api/v1/watch/namespaces/default/pods/absent/status",
    "/api/v1/watch/pods/absent",
    "/api/v1/watch/nodes/absent/status",
    "/api/v2/pods",
    "/API/v1/pods",
    "/api/V1/pods",
    "/api/v1/Pods",
    "/apis/apps/v1/pods",
    "/apis//v1/pods",
    "/apis/apps//deployments",
    "/apis/apps/v1//deployments",
    "/apis/apps/v1/namespaces",
    "/apis/apps/v1/namespaces/default",
    "/apis/apps/v1/namespaces/default/status",
    "/apis/apps/v1/namespaces/default/namespaces/kube-system",
    "/apis/apps/v1/namespaces/default/deployments/absent/scale/more",
    "/apis/apps/v1/namespaces/default/deployments/absent/",
    f"/apis/{GROUP}/v1/namespaces/default",
    f"/apis/{GROUP}/v1/namespaces/default/widgets/",
    f"/apis/{GROUP}/v1/namespaces/default/widgets/absent/",
    f"/apis/{GROUP}/v1/namespaces/default/widgets/absent/status/",
    f"/apis/{GROUP}/v1/namespaces/default/widgets//status",
    f"/apis/{GROUP}/v1/widgets/",
    f"/apis/{GROUP}/v1/regions//",
    f"/apis/{GROUP}/v2/widgets",
    f"//apis/{GROUP}/v1/widgets",
)

# Paths that are no resource's: health, discovery and documents.
_BARE = (
    "/apis/apps/pods",
    "/apis/v1/pods",
    "/",
    "//",
    "/api",
    "/api/",
    "//api",
    "/api//",
    "/api/v1",
    "/api/v1/",
    "//api/v1",
    "/api//v1",
    "/apis",
    "/apis/",
    "/apis/apps",
    "/apis/apps/",
    "/apis/apps/v1",
    "/apis/apps/v1/",
    "/apis/nothing",
    "/apis/nothing/v1",
    f"/apis/{GROUP}",
    f"/apis/{GROUP}/",
    f"/apis/{GROUP}/v1",
    f"/apis/{GROUP}/v1/",
    "/healthz",
    "/healthz/",
    "/healthz/ping",
    "/healthz/ping/",
    "/healthz/nothing",
    "/healthz/../metrics",
    "//healthz",
    "/livez",
    "/livez/",
    "/livez/ping",
    "/readyz",
    "/readyz/",
    "/readyz/ping",
    "/version",
    "/version/",
    "/version/x",
    "/metrics",
    "/metrics/",
    "/metrics/x",
    "/openapi",
    "/openapi/v2",
    "/openapi/v2/",
    "/openapi/v3",
    "/openapi/v3/",
    "/openapi/v3/api/v1",
    "/openapi/v3/nothing",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/nothing",
)


def tidy() -> Iterator[str]:
    """Every kind under every scope, with and without a name and subresource, also where the path says `watch`."""
    for (root, plurals), prefix, scope in itertools.product(_KINDS.items(), _PREFIXES, _SCOPES):
        for plural, subresources in plurals.items():
            collection = f"{root}/{prefix}{scope}{plural}"
            yield collection
            yield f"{collection}/absent"
            for subresource in subresources:
                yield f"{collection}/absent/{subresource}"


def untidy() -> Iterator[str]:
    """The special ones."""
    yield from _UNTIDY


def bare() -> Iterator[str]:
    """Those that name no resource."""
    yield from _BARE
