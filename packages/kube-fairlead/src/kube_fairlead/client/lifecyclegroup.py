"""Which API group the lifecycle kinds are served in: discovered from the server, never assumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.reserved import LIFECYCLE_GROUP, LIFECYCLE_GROUP_ALTERNATIVE, LIFECYCLE_VERSION
from kube_fairlead.api.scheme import Kind, Scheme
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client

__all__ = [
    "GROUPS",
    "GroupUnknown",
    "LateScheme",
    "candidates",
    "discovered",
    "explain_absence",
    "explain_choice",
    "served_groups",
    "served_kinds",
    "wait_settled",
]

GROUPS: Final = (LIFECYCLE_GROUP, LIFECYCLE_GROUP_ALTERNATIVE)

# CRDs are often applied moments after the components that use them.
_BACKOFF: Final = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=5.0)
_ASK_SECONDS: Final = 10.0


class GroupUnknown(Exception):
    """Raised when no group serves the kinds, or several do. Says what would help."""


class LateScheme(Scheme):
    """A scheme for a process that starts before it knows the group of the lifecycle kinds.

    Clients share it. Until `settle` is called, requests for lifecycle kinds raise `errors.NotDiscovered`; all others
    work, so that a shutdown of the machine is handled while the API server is unreachable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.group = ""

    def settle(self, group: str) -> None:
        """The kinds are served in this group."""
        super().__init__(group)
        self.group = group

    def by_class(self, cls: type[Any]) -> Kind:
        """The kind that a class stands for."""
        kind = super().by_class(cls)
        if not self.group and self.is_lifecycle(kind):
            raise client_errors.NotDiscovered(f"the API group of {cls.__name__} is not known yet")
        return kind


class _Resource(msgspec.Struct):
    name: str = ""


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] = []


async def served_groups(client: Client) -> tuple[str, ...]:
    """The groups in which the server has LifecycleEvents. Kubernetes has other kinds in one of them.

    Raises:
        ApiError, ClientError: the server is unreachable, or rejects the request.
    """
    return tuple([group for group in GROUPS if "lifecycleevents" in await served_kinds(client, group)])


async def served_kinds(client: Client, group: str) -> frozenset[str]:
    """The plurals that the server has in the version of a group that is Fairlead's.

    Raises:
        ApiError, ClientError: the server is unreachable, or rejects the request.
    """
    try:
        answer = await client.request("GET", f"/apis/{group}/{LIFECYCLE_VERSION}")
    except api_errors.NotFound:
        return frozenset()
    try:
        found = msgspec.json.decode(answer.body, type=_ResourceList)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        # A proxy's page, for example.
        raise client_errors.AnswerInvalid(f"the answer to /apis/{group} is no list of kinds: {error}") from error
    return frozenset(kind.name for kind in found.resources)


async def candidates(client: Client) -> tuple[Client, ...]:
    """The same client for each group in which the kinds may be: the one it knows, else all that the server serves.

    For a reader that knows the uid of its object.

    Raises:
        ApiError, ClientError: the server is unreachable, or rejects the request.
    """
    if not isinstance(client.scheme, LateScheme):
        return (client,)
    return tuple(client.with_scheme(Scheme(group)) for group in await served_groups(client))


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
    raise GroupUnknown(explain_choice(groups))


def explain_absence(wanted: str, served: tuple[str, ...]) -> str:
    """Why there are no LifecycleEvents in the configured group, and what would help."""
    if served:
        return (
            f"this cluster serves LifecycleEvents in {' and '.join(served)}, not in {wanted}; "
            f"leave --lifecycle-api-group out, or name {served[0]}"
        )
    return (
        f"this cluster serves no LifecycleEvents, neither in {GROUPS[0]} nor in {GROUPS[1]}; "
        "fairlead install prints what it needs"
    )


async def wait_settled(client: Client, scheme: LateScheme, on_waiting: Callable[[str], None]) -> None:
    """Poll until the server serves the kinds in exactly one group, and settle the scheme on it.

    Args:
        client: of the server.
        scheme: is settled; one that is settled already is left as it is.
        on_waiting: is called with the reason each time the group cannot be known yet.
    """
    delays = _BACKOFF.delays(client.randomness)
    while not scheme.group:
        try:
            async with client.clock.timeout(_ASK_SECONDS):
                groups = await served_groups(client)
        except TimeoutError:
            on_waiting(f"the API server has not answered within {_ASK_SECONDS:.0f} s")
        except (api_errors.ApiError, client_errors.ClientError) as error:
            on_waiting(f"the API server cannot be asked for its API groups: {error}")
        else:
            if len(groups) == 1:
                scheme.settle(groups[0])
                return
            on_waiting(explain_choice(groups))
        await client.clock.sleep(next(delays))


def explain_choice(served: tuple[str, ...]) -> str:
    """Why none of several groups, or of none, is taken, and what would help."""
    if served:
        return f"this cluster serves LifecycleEvents in {' and '.join(served)}; say which by --lifecycle-api-group"
    return explain_absence("", served)
