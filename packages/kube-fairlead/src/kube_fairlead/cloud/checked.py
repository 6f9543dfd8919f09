"""A provider as it was found at the start: every part looked at once, and refused if it is not what it should be."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from kube_fairlead.cloud import answers
from kube_fairlead.cloud.cluster import Cluster
from kube_fairlead.cloud.errors import CloudError, ProviderError
from kube_fairlead.cloud.faults import faults_of
from kube_fairlead.cloud.ownership import PlatformError, parse_platforms
from kube_fairlead.cloud.provider import Instances, LoadBalancers, ManyInstances, Provider, Routes, Zones

__all__ = ["CheckedProvider", "checked"]

_T = TypeVar("_T")

_PARTS: dict[str, type] = {
    "instances": Instances,
    "zones": Zones,
    "routes": Routes,
    "load_balancers": LoadBalancers,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProvider:
    """A provider whose parts do not change any more: what was there at the start is there."""

    name: str
    instances: Instances | None
    zones: Zones | None
    routes: Routes | None
    load_balancers: LoadBalancers | None
    platforms: frozenset[str]
    platforms_are_configured: bool
    made: Provider

    def supported_platforms(self) -> frozenset[str]:
        """What it said at the start: a manager must not come to answer for more."""
        return self.platforms

    def running(self, cluster: Cluster) -> AbstractAsyncContextManager[object]:
        """The provider's own block."""
        return self.made.running(cluster)


def checked(name: str, make: Callable[[], Provider]) -> CheckedProvider:
    """Make a provider and look at it.

    Args:
        name: as in `--cloud-provider`.
        make: makes it.

    Raises:
        ProviderError: it cannot be made, or is not what the protocol demands; says what is wrong.
    """
    provider = _asked(name, "the factory", make)
    parts: dict[str, Any] = {part: _part(name, provider, part) for part in _PARTS}
    _check_arguments(name, provider, "the provider", [Provider.running, Provider.supported_platforms])
    own_name = _asked(name, "name", lambda: provider.name)
    platforms = _asked(
        name,
        "supported_platforms",
        lambda: answers.promise_of(Provider.supported_platforms)(
            provider.supported_platforms(), f"{Provider.supported_platforms.__name__}()"
        ),
    )
    try:
        # Its name is part of the names of Leases and accounts, which have the same alphabet.
        parse_platforms([own_name, *platforms])
    except (PlatformError, AttributeError, TypeError) as error:
        raise ProviderError(f"cloud provider {name} has a name or a platform that does not do: {error}") from error
    are_configured = _asked(
        name, "platforms_are_configured", lambda: getattr(provider, "platforms_are_configured", False)
    )
    return CheckedProvider(
        name=own_name, platforms=platforms, platforms_are_configured=are_configured is True, made=provider, **parts
    )


def _part(name: str, provider: Provider, part: str) -> object:
    found: object = _asked(name, part, lambda: getattr(provider, part))
    if found is None:
        return None
    methods = _methods(_PARTS[part])
    missing = _asked(
        name,
        part,
        lambda: [one.__name__ for one in methods if not callable(getattr(found, one.__name__, None))],
    )
    if missing:
        raise ProviderError(f"cloud provider {name}: its {part} lack {', '.join(missing)}")
    if _PARTS[part] is Instances and isinstance(found, ManyInstances):
        methods += _methods(ManyInstances)
    _check_arguments(name, found, f"its {part}", methods)
    return found


def _methods(protocol: type) -> list[Callable[..., Any]]:
    return [method for name, method in inspect.getmembers(protocol, inspect.isfunction) if name[0] != "_"]


def _check_arguments(name: str, owner: object, what: str, methods: Sequence[Callable[..., Any]]) -> None:
    """Refuse a method that was written for another version of the protocol: it might take one argument for another."""
    for method in methods:
        [_self, *wanted] = inspect.signature(method).parameters
        try:
            inspect.signature(getattr(owner, method.__name__)).bind(*wanted)
        except TypeError as error:
            raise ProviderError(
                f"cloud provider {name}: {method.__name__}() of {what} must take ({', '.join(wanted)}): {error}"
            ) from error
        except ValueError:
            continue  # one that Python cannot look into


def _asked(name: str, what: str, ask: Callable[[], _T]) -> _T:
    try:
        with faults_of(what):
            return ask()
    except ProviderError:
        raise
    except CloudError as error:
        raise ProviderError(f"cloud provider {name} cannot be used: {error}") from error
