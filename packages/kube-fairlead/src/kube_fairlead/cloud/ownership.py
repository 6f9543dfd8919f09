"""The ownership of a node. One pure answer for all controllers, the metric and status (invariant 8).

A cloud controller manager is configured with its platforms: names such as `aws`, the schemes of the providerIDs that
it handles. A node says its platform by `spec.providerID`, whose scheme is compared whole, or, as long as it has none,
by an annotation.

Invariants:
1. With platforms, a node is Owned only if it names one of them, character for character.
2. A providerID decides alone. One that is malformed makes the node Foreign, whatever the annotation says.
3. A node that names nothing is Unknown: only an answer of the cloud itself can make it Owned.
4. Without platforms every node is Owned, as before there was ownership.
5. An annotation is a claim, not a proof. With platforms, a node that is Owned by it alone may be looked up and, if it
   waits, initialised; nothing else is done to it or for it before it has a providerID (`owned_by_id`). So to take the
   annotation away leaves the node as it was.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import ANNOTATION_PLATFORM

__all__ = [
    "Ownership",
    "PlatformError",
    "owned_by_id",
    "ownership",
    "parse_platforms",
    "platform_of",
    "platform_of_provider_id",
]

# A platform is also the value of a node label, and the scheme of an id that is compared as it is: lower case only.
_PLATFORM = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
# The scheme ends at the first `://`, and something follows: printable ASCII without a space. The longest ids in use,
# Azure's, have about 300 characters.
_PROVIDER_ID = re.compile(rf"(?P<platform>{_PLATFORM.pattern})://[!-~]+")
_PROVIDER_ID_LENGTH = 1024


class Ownership(enum.StrEnum):
    """What a node is to one cloud controller manager."""

    OWNED = "Owned"  # manage it
    FOREIGN = "Foreign"  # another manager's, or unmanaged: leave it, its routes and its targets alone
    UNKNOWN = "Unknown"  # it does not say: leave it alone, unless the cloud answers for it


class PlatformError(ValueError):
    """Raised when a list of platforms holds something that cannot be one."""


def ownership(node: Node, platforms: Collection[str]) -> Ownership:
    """The ownership of a node, for a manager of these platforms."""
    if not platforms:
        return Ownership.OWNED
    if node.spec.provider_id:
        return _belongs(platform_of_provider_id(node.spec.provider_id), platforms)
    if annotated := node.metadata.annotations.get(ANNOTATION_PLATFORM):
        return _belongs(annotated, platforms)
    return Ownership.UNKNOWN


def owned_by_id(node: Node, platforms: Collection[str]) -> bool:
    """Whether a node is Owned and, with platforms, says so by its providerID and not by an annotation alone."""
    return ownership(node, platforms) is Ownership.OWNED and (not platforms or bool(node.spec.provider_id))


def platform_of(node: Node) -> str:
    """The platform that a node names; empty when it names none, or nothing that could be one."""
    if node.spec.provider_id:
        return platform_of_provider_id(node.spec.provider_id)
    annotated = node.metadata.annotations.get(ANNOTATION_PLATFORM, "")
    return annotated if _PLATFORM.fullmatch(annotated) else ""


def platform_of_provider_id(provider_id: str) -> str:
    """The scheme of a providerID up to `://`; empty for one that is malformed."""
    if len(provider_id) > _PROVIDER_ID_LENGTH:
        return ""
    match = _PROVIDER_ID.fullmatch(provider_id)
    return match["platform"] if match else ""


def parse_platforms(names: Iterable[str]) -> frozenset[str]:
    """Platforms as a user configured them, each checked.

    Raises:
        PlatformError: one of them could never be the scheme of a providerID.
    """
    platforms = [name.strip() for name in names]
    for name in platforms:
        if not _PLATFORM.fullmatch(name):
            raise PlatformError(
                f"{name!r} is not a platform: it must be the scheme of a providerID, such as aws for aws:///zone/i-1, "
                "in lower case letters, digits, '-' and '.', at most 63 of them"
            )
    return frozenset(platforms)


def _belongs(platform: str, platforms: Collection[str]) -> Ownership:
    # An annotation is compared as it is: what is in the set is well-formed, so what equals it is too.
    return Ownership.OWNED if platform and platform in platforms else Ownership.FOREIGN
