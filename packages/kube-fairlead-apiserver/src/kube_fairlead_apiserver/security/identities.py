"""Reserved names of Kubernetes: groups, service accounts and nodes as users.

Upstream: k8s.io/apiserver@v0.36.4/pkg/authentication/user/user.go,
    k8s.io/apiserver@v0.36.4/pkg/authentication/serviceaccount/util.go,
    k8s.io/kubernetes@v1.36.4/pkg/auth/nodeidentifier/default.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.api import names
from kube_fairlead_apiserver.attributes import UserInfo

__all__ = [
    "ALL_SERVICE_ACCOUNTS",
    "AUTHENTICATED",
    "CREDENTIAL_ID",
    "MASTERS",
    "NODES",
    "NODE_NAME",
    "NODE_UID",
    "POD_NAME",
    "POD_UID",
    "UNAUTHENTICATED",
    "node_name_of",
    "service_account_groups",
    "service_account_of",
    "service_account_user",
    "with_authenticated_group",
]

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
NODES = "system:nodes"
ALL_SERVICE_ACCOUNTS = "system:serviceaccounts"

# Keys of a user's extra.
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
NODE_NAME = "authentication.kubernetes.io/node-name"
NODE_UID = "authentication.kubernetes.io/node-uid"

_SERVICE_ACCOUNT = "system:serviceaccount:"
_NODE = "system:node:"


def service_account_user(namespace: str, name: str) -> str:
    """Return a service account as a user name."""
    return f"{_SERVICE_ACCOUNT}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of every service account of a namespace."""
    return (ALL_SERVICE_ACCOUNTS, f"{ALL_SERVICE_ACCOUNTS}:{namespace}")


def service_account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account of a user name; None for other users."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return None
    parts = user.removeprefix(_SERVICE_ACCOUNT).split(":")
    if len(parts) != 2 or names.name_is_dns_label(parts[0]) or names.name_is_dns_subdomain(parts[1]):
        return None
    return parts[0], parts[1]


def node_name_of(user: UserInfo) -> str | None:
    """Return the node of a kubelet; None if the user is no kubelet."""
    if NODES not in user.groups or not user.name.startswith(_NODE):
        return None
    return user.name.removeprefix(_NODE)


def with_authenticated_group(user: UserInfo) -> UserInfo:
    """Add the group system:authenticated, unless the groups already have it or system:unauthenticated."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))
