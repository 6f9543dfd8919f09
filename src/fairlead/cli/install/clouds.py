"""Which cloud controller managers to install, as the flags say. Pure.

What a manager would refuse at its start is refused here: it would only be found in the log of a pod that starts again
and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.cloud.decisions.routes import parse_networks
from fairlead.cloud.enforcement import Manager
from fairlead.cloud.ownership import PlatformError, parse_platforms

__all__ = ["cloud_managers"]

# By upstream's names, and by the older ones that it still takes.
_NAMES = {
    **dict.fromkeys(("node-route-controller", "route"), "route"),
    **dict.fromkeys(("service-lb-controller", "service"), "service"),
}
# Of the providers that come along, those with neither routes nor load balancers.
_NODES_ONLY = frozenset({"hcloud", "static"})


def cloud_managers(
    clouds: Sequence[str], controllers: Sequence[str], *, namespace: str, cluster_cidr: str
) -> tuple[Manager, ...]:
    """The managers.

    Args:
        clouds: `PROVIDER[=PLATFORM,...]`, each a manager.
        controllers: `[PROVIDER=]NAME,...`, what a manager runs beside the node controllers; without a provider it is
            the only one that is meant.
        namespace: where they run.
        cluster_cidr: the range of pod addresses, which routes need.

    Raises:
        ValueError: they do not fit together.
    """
    platforms = dict(_cloud(text) for text in clouds)
    if len(platforms) < len(clouds):
        raise ValueError("--ccm: a provider can be named once; give it all its platforms")
    wanted: dict[str, set[str]] = {provider: set() for provider in platforms}
    for text in controllers:
        provider, names = _controllers(text, platforms)
        wanted[provider] |= names
    if any("route" in names for names in wanted.values()):
        _check_range(cluster_cidr)
    return tuple(
        Manager(
            provider=provider,
            platforms=named,
            namespace=namespace,
            routes="route" in wanted[provider],
            services="service" in wanted[provider],
        )
        for provider, named in platforms.items()
    )


def _cloud(text: str) -> tuple[str, frozenset[str]]:
    provider, _, platforms = text.partition("=")
    try:
        return provider, parse_platforms((platforms or provider).split(","))
    except PlatformError as error:
        raise ValueError(f"--ccm={text}: {error}") from error


def _controllers(text: str, clouds: Iterable[str]) -> tuple[str, set[str]]:
    provider, separator, listed = text.rpartition("=")
    known = list(clouds)
    names = {name.strip() for name in listed.split(",") if name.strip()}
    if unknown := sorted(names - set(_NAMES)):
        raise ValueError(
            f"--ccm-controllers knows node-route-controller and service-lb-controller, not {', '.join(unknown)}"
        )
    if not separator:
        if len(known) != 1:
            raise ValueError(f"--ccm-controllers={text}: say whose they are, PROVIDER={text}")
        provider = known[0]
    if provider not in known:
        raise ValueError(f"--ccm-controllers={text}: there is no --ccm {provider}")
    if names and provider in _NODES_ONLY:
        raise ValueError(f"--ccm-controllers: cloud provider {provider} has neither routes nor load balancers")
    return provider, {_NAMES[name] for name in names}


def _check_range(cluster_cidr: str) -> None:
    try:
        parse_networks(cluster_cidr)
    except ValueError as error:
        raise ValueError(f"the route controller needs --cluster-cidr: {error}") from error
