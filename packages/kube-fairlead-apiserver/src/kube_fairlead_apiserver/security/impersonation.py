"""User impersonation: the `Impersonate-*` headers, each of which needs the permission to impersonate.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/filters/impersonation/impersonation.go
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from typing import NamedTuple

from kube_fairlead.api import errors
from kube_fairlead_apiserver.attributes import ANONYMOUS, Attributes, UserInfo
from kube_fairlead_apiserver.security import identities
from kube_fairlead_apiserver.security.authorization import Authorization, forbidden

__all__ = ["Impersonation", "impersonate", "read_impersonation"]

_USER = "impersonate-user"
_GROUP = "impersonate-group"
_UID = "impersonate-uid"
_EXTRA = "impersonate-extra-"


class Impersonation(NamedTuple):
    """The user that a request impersonates."""

    user: str
    groups: tuple[str, ...]
    uid: str
    extra: tuple[tuple[str, str], ...]


def read_impersonation(headers: Iterable[tuple[str, str]]) -> Impersonation | None:
    """Return the impersonation that the headers request, or None. Names are lower case.

    Groups and extras may come several times. Of several users or UIDs the first counts, as in kube-apiserver.
    """
    given = list(headers)
    first = dict(reversed(given))
    user, uid = first.get(_USER, ""), first.get(_UID, "")
    groups: list[str] = []
    extra: list[tuple[str, str]] = []
    for name, value in given:
        if name == _GROUP:
            groups.append(value)
        elif name.startswith(_EXTRA):
            extra.append((urllib.parse.unquote(name.removeprefix(_EXTRA)), value))
    if not user:
        if groups or uid or extra:
            asked = ", ".join([*groups, *([uid] if uid else []), *(f"{key}={value}" for key, value in extra)])
            raise errors.BadRequest(f"requested [{asked}] without impersonating a user")
        return None
    return Impersonation(user, tuple(groups), uid, tuple(sorted(extra)))


def impersonate(caller: UserInfo, wanted: Impersonation, authorization: Authorization) -> UserInfo:
    """Return the impersonated user; Forbidden names the first part that the caller may not impersonate."""

    def check(resource: str, name: str, *, group: str = "", namespace: str = "", subresource: str = "") -> None:
        attributes = Attributes(
            user=caller,
            verb="impersonate",
            path="",
            resource=resource,
            group=group,
            version="v1",
            subresource=subresource,
            namespace=namespace,
            name=name,
        )
        decision = authorization.decide(attributes)
        if not decision.allowed:
            raise forbidden(attributes, decision.reason)

    groups = list(wanted.groups)
    account = identities.service_account_of(wanted.user)
    if account is not None:
        check("serviceaccounts", account[1], namespace=account[0])
        if not groups:
            groups = list(identities.service_account_groups(account[0]))
    else:
        check("users", wanted.user)
    for name in wanted.groups:
        check("groups", name)
    for key, value in wanted.extra:
        check("userextras", value, group="authentication.k8s.io", subresource=key)
    if wanted.uid:
        check("uids", wanted.uid, group="authentication.k8s.io")
    if wanted.user == ANONYMOUS.name:
        if identities.UNAUTHENTICATED not in groups:
            groups.append(identities.UNAUTHENTICATED)
    elif identities.AUTHENTICATED not in groups and identities.UNAUTHENTICATED not in groups:
        groups.append(identities.AUTHENTICATED)
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in wanted.extra:
        extra[key] = (*extra.get(key, ()), value)
    return UserInfo(name=wanted.user, uid=wanted.uid, groups=tuple(groups), extra=extra)
