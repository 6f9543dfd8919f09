"""The attributes of one request that authorization, admission and audit use.

Upstream: k8s.io/apiserver@v0.36.4/pkg/authentication/user/user.go,
    k8s.io/apiserver@v0.36.4/pkg/authorization/authorizer/interfaces.go
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube_fairlead.api.selectors import FieldMatcher

__all__ = ["ANONYMOUS", "Attributes", "UserInfo"]


class UserInfo(msgspec.Struct, frozen=True):
    """An authenticated caller, as Kubernetes describes one."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = UserInfo(name="system:anonymous", groups=("system:unauthenticated",))


class Attributes(msgspec.Struct, frozen=True):
    """One request as authorization sees it. A request names either a resource or a non-resource path."""

    user: UserInfo
    verb: str  # get list watch create update patch delete deletecollection; get, post... for a bare path
    path: str
    resource: str = ""  # plural
    group: str = ""
    version: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    fields: FieldMatcher | None = None  # what a list, watch or deletecollection selects by
    is_resource: bool = True  # False for a bare path; a resource's name may be empty (/api/v1//pods)
