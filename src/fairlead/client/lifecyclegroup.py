"""Which API group the lifecycle kinds are served in: asked of the server, never assumed."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api import errors as api_errors
from fairlead.api.reserved import LIFECYCLE_GROUP, LIFECYCLE_GROUP_ALTERNATIVE, LIFECYCLE_VERSION
from fairlead.api.scheme import Scheme
from fairlead.client.client import Client

__all__ = ["GROUPS", "GroupUnknown", "discovered", "explain_absence", "served_groups"]

GROUPS: Final = (LIFECYCLE_GROUP, LIFECYCLE_GROUP_ALTERNATIVE)


class GroupUnknown(Exception):
    """Raised when no group serves the kinds, or several do. Says what would help."""


class _Resource(msgspec.Struct):
    name: str = ""


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] = []


async def served_groups(client: Client) -> tuple[str, ...]:
    """The groups in which the server has LifecycleEvents. Kubernetes has other kinds in one of them.

    Raises:
        ApiError, ClientError: the server cannot be asked now, or does not want to be.
    """
    found = []
    for group in GROUPS:
        try:
            answer = await client.request("GET", f"/apis/{group}/{LIFECYCLE_VERSION}")
        except api_errors.NotFound:
            continue
        kinds = msgspec.json.decode(answer.body, type=_ResourceList).resources
        if any(kind.name == "lifecycleevents" for kind in kinds):
            found.append(group)
    return tuple(found)


async def discovered(client: Client, group: str = "") -> Client:
    """The same client, with the lifecycle kinds in the group that serves them, or in the one that is named.

    Raises:
        GroupUnknown: none serves them, or several do.
    """
    if group:
        return client.with_scheme(Scheme(group))
    groups = await served_groups(client)
    if len(groups) == 1:
        return client.with_scheme(Scheme(groups[0]))
    if groups:
        both = " and ".join(groups)
        raise GroupUnknown(f"this cluster serves LifecycleEvents in {both}; say which by --lifecycle-api-group")
    raise GroupUnknown(explain_absence("", groups))


def explain_absence(wanted: str, served: tuple[str, ...]) -> str:
    """Why there are no LifecycleEvents in the group that was asked for, and what would help."""
    if served:
        return (
            f"this cluster serves LifecycleEvents in {' and '.join(served)}, not in {wanted}; "
            f"leave --lifecycle-api-group out, or name {served[0]}"
        )
    return (
        f"this cluster serves no LifecycleEvents, neither in {GROUPS[0]} nor in {GROUPS[1]}; "
        "fairlead install prints what it needs"
    )
