"""Finding a provider by name. Every installed package may bring some, under the entry point group below."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from kube_fairlead.cloud.checked import CheckedProvider, checked
from kube_fairlead.cloud.errors import ProviderError
from kube_fairlead.cloud.ownership import PlatformError, parse_platforms
from kube_fairlead.cloud.provider import Provider, ProviderSettings

__all__ = ["ENTRY_POINT_GROUP", "make_provider", "platforms_of", "provider_names", "require_part"]

ENTRY_POINT_GROUP = "fairlead.cloud_providers"


class _EntryPoint(Protocol):
    @property
    def name(self) -> str: ...

    def load(self) -> Any: ...


def _installed() -> Iterable[_EntryPoint]:
    return importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)


def provider_names(find: Callable[[], Iterable[_EntryPoint]] = _installed) -> list[str]:
    """The providers that are installed."""
    return sorted({entry.name for entry in find()})


def make_provider(
    name: str, settings: ProviderSettings, find: Callable[[], Iterable[_EntryPoint]] = _installed
) -> CheckedProvider:
    """Make the provider of this name.

    Raises:
        ProviderError: there is none, its library is missing, it cannot be configured so, or is not what it should be.
    """
    entry = next((entry for entry in find() if entry.name == name), None)
    if entry is None:
        known = ", ".join(provider_names(find)) or "none"
        raise ProviderError(f"--cloud-provider: {name!r} is not known; installed are: {known}")
    try:
        factory = entry.load()
    except ImportError as error:
        raise ProviderError(
            f"cloud provider {name} cannot be loaded: {error}; its library: pip install 'kube-fairlead[{name}]'"
        ) from error
    except (Exception, SystemExit) as error:
        raise ProviderError(f"cloud provider {name} cannot be loaded: {type(error).__name__}: {error}") from error
    return checked(name, lambda: factory(settings))


def platforms_of(provider: Provider, overrides: Collection[str] | None) -> frozenset[str]:
    """The platforms that a manager answers for: the provider's own, or those of `--cloud-provider-platforms`.

    An administrator may name fewer than the provider supports, or any if the provider does not say. To name none at
    all is to have a single cloud, without ownership.

    Raises:
        ProviderError: the provider does not support a requested platform.
    """
    if overrides is None:
        return provider.supported_platforms()
    try:
        asked = parse_platforms(overrides)
    except PlatformError as error:
        raise ProviderError(f"--cloud-provider-platforms: {error}") from error
    supported = provider.supported_platforms()
    if supported and (unsupported := sorted(asked - supported)):
        raise ProviderError(
            f"cloud provider {provider.name} does not support platform {', '.join(unsupported)}; "
            f"it supports {', '.join(sorted(supported))}"
        )
    return asked


def require_part(provider: Provider, part: str, controller: str) -> None:
    """Check that a provider has what a controller needs.

    Raises:
        ProviderError: it has not.
    """
    if getattr(provider, part) is None:
        raise ProviderError(
            f"controller {controller} cannot run: cloud provider {provider.name} does not support "
            f"{part.replace('_', ' ')}; leave it out: --controllers=*,-{controller}"
        )
