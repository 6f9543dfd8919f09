"""What a cloud controller manager is called: its Lease, its account, its policy and its note on Services. Pure.

There is one manager per provider and set of platforms, so the name carries both, unless the platforms are those of the
provider itself. Two managers of one provider (`static` with two inventories) then have nothing in common.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Final

from kube_fairlead.cloud.provider import Provider

__all__ = ["PREFIX", "identity_of", "lease_name", "manager_identity"]

PREFIX: Final = "cloud-controller-manager"
# Names become values of labels too, which have 63 characters at most.
_LENGTH: Final = 63 - len(PREFIX) - 1
_HASH_LENGTH: Final = 8


def manager_identity(provider: str, platforms: Collection[str], *, own: Collection[str] = ()) -> str:
    """Which manager of a cluster it is: the provider, and its platforms if they are not the provider's own.

    Args:
        provider: its name.
        platforms: those that the manager answers for.
        own: those that the provider supports by itself; a platform of the provider's name is its own in any case.
    """
    named = sorted(set(platforms))
    is_own = not named or named == [provider] or set(named) == set(own)
    wanted = provider if is_own else "-".join([provider, *named])
    if (is_own or len(named) == 1) and len(wanted) <= _LENGTH:
        return wanted
    # Names may have dashes: the hash of the whole list distinguishes joined names.
    exact = hashlib.sha256("\n".join([provider, *named]).encode()).hexdigest()[:_HASH_LENGTH]
    return f"{wanted[: _LENGTH - _HASH_LENGTH - 1].rstrip('-.')}-{exact}"


def identity_of(provider: Provider, platforms: Collection[str]) -> str:
    """The same, of a provider that runs. One whose platforms come from its configuration has none of its own."""
    is_configured = getattr(provider, "platforms_are_configured", False) is True
    return manager_identity(provider.name, platforms, own=() if is_configured else provider.supported_platforms())


def lease_name(identity: str, platforms: Collection[str]) -> str:
    """The Lease of a manager: with platforms there may be others beside it."""
    return f"{PREFIX}-{identity}" if platforms else PREFIX
