"""The cloud controller managers of an installation, from their written form. Pure.

A configuration that a manager would reject at its start is rejected here, before it fails in the log of a restarting
pod.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kube_fairlead.cloud.decisions.routes import parse_networks
from kube_fairlead.cloud.enforcement import Manager, OtherManager
from kube_fairlead.cloud.manager_names import manager_identity
from kube_fairlead.cloud.ownership import PlatformError, parse_platforms

__all__ = ["cloud_managers", "other_managers"]

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ACCOUNT = re.compile(r"(?=.{1,200}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")

_Cloud = tuple[str, frozenset[str]]  # provider and platforms

# Upstream's names, and the older ones that it still accepts.
_NAMES = {
    **dict.fromkeys(("node-route-controller", "route"), "route"),
    **dict.fromkeys(("service-lb-controller", "service"), "service"),
}
# The included provider that has neither routes nor load balancers.
_NODES_ONLY = frozenset({"static"})


def cloud_managers(
    clouds: Sequence[str], controllers: Sequence[str], *, namespace: str, cluster_cidr: str
) -> tuple[Manager, ...]:
    """The managers.

    Args:
        clouds: `PROVIDER[=PLATFORM,...]`, each a manager.
        controllers: `[PROVIDER[=PLATFORM,...]=]NAME,...`, the controllers that a manager runs beside the node
            controllers; without a provider, those of the only manager.
        namespace: where they run.
        cluster_cidr: the range of pod addresses, required for routes.

    Raises:
        ValueError: they contradict each other.
    """
    named = [_cloud(text) for text in clouds]
    _check_apart(named)
    wanted: dict[_Cloud, set[str]] = {cloud: set() for cloud in named}
    for text in controllers:
        cloud, names = _controllers(text, named)
        wanted[cloud] |= names
    if any("route" in names for names in wanted.values()):
        _check_range(cluster_cidr)
    return tuple(
        Manager(
            provider=provider,
            platforms=platforms,
            namespace=namespace,
            routes="route" in names,
            services="service" in names,
        )
        for (provider, platforms), names in wanted.items()
    )


def other_managers(texts: Sequence[str], *, beside: Sequence[Manager]) -> tuple[OtherManager, ...]:
    """Managers that were installed otherwise, whose accounts are restricted to their own nodes.

    Args:
        texts: `NAMESPACE/SERVICEACCOUNT=PLATFORM,...`, each an account. One manager may have several, one for each of
            its controllers, so platforms may be named again.
        beside: the managers that are installed here; a platform has one manager, so none of theirs may be named.

    Raises:
        ValueError: one has another form, or they contradict each other.
    """
    taken = {platform: manager for manager in beside for platform in manager.platforms}
    found: dict[str, OtherManager] = {}
    for text in texts:
        whose, separator, listed = text.partition("=")
        namespace, _, account = whose.partition("/")
        if not separator or not _NAMESPACE.fullmatch(namespace) or not _ACCOUNT.fullmatch(account):
            raise ValueError(
                f"--fence-cloud-manager={text}: must be NAMESPACE/SERVICEACCOUNT=PLATFORM,..., such as "
                "kube-system/cloud-controller-manager=gce"
            )
        try:
            platforms = parse_platforms(listed.split(","))
        except PlatformError as error:
            raise ValueError(f"--fence-cloud-manager={text}: {error}") from error
        if clash := sorted(platforms & taken.keys()):
            raise ValueError(
                f"--fence-cloud-manager={text}: platform {clash[0]} belongs to --ccm {taken[clash[0]].provider}; each "
                "has one manager"
            )
        if whose in found:
            raise ValueError(f"--fence-cloud-manager: {whose} is named twice; list all of its platforms in one flag")
        found[whose] = OtherManager(namespace=namespace, account=account, platforms=platforms)
    return tuple(found.values())


def _check_apart(clouds: Sequence[_Cloud]) -> None:
    """Managers may share a provider, but no platform and no account: a node has one owner, an account one manager."""
    owners: dict[str, str] = {}
    names: dict[str, str] = {}
    for provider, platforms in clouds:
        text = f"{provider}={','.join(sorted(platforms))}"
        for platform in sorted(platforms):
            if platform in owners:
                raise ValueError(
                    f"--ccm: platform {platform} is named twice, by {owners[platform]} and {text}; each has one manager"
                )
            owners[platform] = text
        name = manager_identity(provider, platforms)
        if name in names:
            raise ValueError(f"--ccm: {names[name]} and {text} would both have the name {name}")
        names[name] = text


def _cloud(text: str) -> _Cloud:
    provider, _, platforms = text.partition("=")
    try:
        return provider, parse_platforms((platforms or provider).split(","))
    except PlatformError as error:
        raise ValueError(f"--ccm={text}: {error}") from error


def _controllers(text: str, clouds: Sequence[_Cloud]) -> tuple[_Cloud, set[str]]:
    whose, separator, listed = text.rpartition("=")
    names = {name.strip() for name in listed.split(",") if name.strip()}
    if unknown := sorted(names - set(_NAMES)):
        raise ValueError(
            f"--ccm-controllers knows node-route-controller and service-lb-controller, not {', '.join(unknown)}"
        )
    cloud = _whose(text, whose, clouds) if separator else _only(text, clouds)
    if names and cloud[0] in _NODES_ONLY:
        raise ValueError(f"--ccm-controllers: cloud provider {cloud[0]} has neither routes nor load balancers")
    return cloud, {_NAMES[name] for name in names}


def _only(text: str, clouds: Sequence[_Cloud]) -> _Cloud:
    if len(clouds) != 1:
        raise ValueError(f"--ccm-controllers={text}: say whose they are, PROVIDER={text}")
    return clouds[0]


def _whose(text: str, whose: str, clouds: Sequence[_Cloud]) -> _Cloud:
    """The manager of a provider, if it has one manager, else the one with the same provider and platforms."""
    found = [cloud for cloud in clouds if cloud[0] == whose]
    if len(found) > 1:
        several = " or ".join(f"{provider}={','.join(sorted(platforms))}" for provider, platforms in found)
        raise ValueError(f"--ccm-controllers={text}: say which {whose} is meant, {several}")
    if not found and "=" in whose:
        found = [cloud for cloud in clouds if cloud == _cloud(whose)]
    if not found:
        raise ValueError(f"--ccm-controllers={text}: there is no --ccm {whose}")
    return found[0]


def _check_range(cluster_cidr: str) -> None:
    try:
        parse_networks(cluster_cidr)
    except ValueError as error:
        raise ValueError(f"the route controller needs --cluster-cidr: {error}") from error
