"""What the node lifecycle controller does in one pass over all nodes. Pure.

Invariants:
1. Only Owned nodes are queried, tainted or deleted; with platforms, only those that say so by their providerID.
2. A node is deleted only with a providerID, when it is not Ready, was missing from the cloud's answer, and then the
   cloud said of that very id that it is gone.
3. When more nodes are missing than may vanish unannounced, none of these is deleted unless an operator confirmed it.
4. When all nodes of a platform are missing, and one of them was neither announced nor confirmed, that is so for those
   that were announced too: it is the answer that is wrong. When all of them were announced, they go as others do.

Upstream: k8s.io/cloud-provider@v0.36.4/controllers/nodelifecycle/node_lifecycle_controller.go
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.ownership import owned_by_id, platform_of_provider_id
from kube_fairlead.cloud.provider import Instance

__all__ = ["FirstLook", "Judgement", "Limits", "Stop", "first_look", "judge", "missing_nodes"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an operator may set."""

    # The share of this cloud's nodes that may vanish at once; one node always may, unless it is 0 or the last.
    vanishing_share: float = 0.1
    # A node that waits for the node controller is not queried for so long: one of the two queries, not both.
    initialisation_wait_seconds: float = 120.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FirstLook:
    """What to do before the cloud is queried, and which nodes to query."""

    untaint: tuple[Node, ...]  # Ready again, and still tainted as shut down
    ask: tuple[Node, ...]
    totals: Mapping[str, int]  # by platform, how many nodes this cloud has, as far as they can be missed
    is_hybrid: bool  # whether there are platforms; a single cloud is one platform without a name

    @property
    def with_id(self) -> int:
        """How many there are in all."""
        return sum(self.totals.values())

    def platform(self, node: Node) -> str:
        """Under which of the totals a node counts."""
        return platform_of_provider_id(node.spec.provider_id) if self.is_hybrid else ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """More nodes are missing than may vanish at once: people must look."""

    missing: tuple[Node, ...]  # those not announced or confirmed; if all are missing, those not confirmed
    of: int  # with those that went lately
    allowed: int | None  # None: all of them are missing, and not all were announced
    platform: str = ""  # of which all are missing
    recently: int = 0  # vanished so lately that they count with these; their nodes are deleted

    def __str__(self) -> str:
        return (
            f"{self._what()}: none is deleted. To delete those that are really gone, annotate them with "
            f"{wellknown.ANNOTATION_CONFIRM_DELETION}=true"
        )

    def _what(self) -> str:
        if self.allowed is None:
            which = f" of platform {self.platform}" if self.platform else ""
            return f"The cloud knows none of its {_nodes(self.of)}{which} any more"
        vanished = len(self.missing) + self.recently
        deleted = f" ({self.recently} of them deleted already)" if self.recently else ""
        what = f"{vanished} of {_nodes(self.of)} vanished from the cloud within five minutes{deleted}"
        return f"{what}, more than {self.allowed}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What follows from the cloud's answer."""

    taint: tuple[Node, ...]  # shut down
    confirm: tuple[Node, ...]  # to be deleted, if the cloud says of that very id that it is gone
    surprises: frozenset[str]  # names among `confirm` that count against the limit
    stops: tuple[Stop, ...] = ()


def first_look(
    nodes: Iterable[Node],
    platforms: Collection[str],
    now: dt.datetime,
    limits: Limits,
    *,
    recognises: Callable[[str], bool] = bool,
) -> FirstLook:
    """Sort the nodes.

    Args:
        nodes: all of them, whosever they are.
        platforms: those of this manager; empty for a single cloud.
        now: the time.
        limits: as set.
        recognises: whether a providerID has the form of this cloud's. A node whose id has not could only seem missing.
    """
    untaint: list[Node] = []
    ask: list[Node] = []
    totals: collections.Counter[str] = collections.Counter()
    look = FirstLook(untaint=(), ask=(), totals={}, is_hybrid=bool(platforms))
    for node in nodes:
        if not owned_by_id(node, platforms):
            continue
        is_known = bool(node.spec.provider_id) and recognises(node.spec.provider_id)
        if is_known:
            totals[look.platform(node)] += 1
        if wellknown.is_ready(node):
            if wellknown.has_taint(node, wellknown.SHUTDOWN_TAINT.key):
                untaint.append(node)
        elif (is_known or not node.spec.provider_id) and not _waits_for_initialisation(node, now, limits):
            ask.append(node)
    return dataclasses.replace(look, untaint=tuple(untaint), ask=tuple(ask), totals=dict(totals))


def judge(look: FirstLook, answers: Mapping[str, Instance], limits: Limits, *, recently_vanished: int = 0) -> Judgement:
    """What to do about the queried nodes.

    Args:
        look: the nodes.
        answers: what was found, by the name of the node.
        limits: as set.
        recently_vanished: nodes that were deleted a short while ago and count as vanished at once with these.
    """
    taint = [
        node
        for node in look.ask
        if (found := answers.get(node.name)) is not None
        and found.shutdown
        and not wellknown.has_taint(node, wellknown.SHUTDOWN_TAINT.key)
    ]
    missing = missing_nodes(look, answers)
    confirmed = [node for node in missing if _is_confirmed(node)]
    unconfirmed = [node for node in missing if not _is_confirmed(node)]
    announced = [node for node in unconfirmed if _is_announced(node)]
    surprises = [node for node in unconfirmed if not _is_announced(node)]
    stops = _emptied(look, missing, unconfirmed, {look.platform(node) for node in surprises})
    held = {stop.platform for stop in stops}
    announced = [node for node in announced if look.platform(node) not in held]
    left = [node for node in surprises if look.platform(node) not in held]
    total = look.with_id + recently_vanished
    allowed = _allowed(total, limits)
    # Those that are held have vanished too.
    if left and len(surprises) + recently_vanished > allowed:
        stops.append(Stop(missing=tuple(left), of=total, allowed=allowed, recently=recently_vanished))
        left = []
    return Judgement(
        taint=tuple(taint),
        confirm=(*confirmed, *announced, *left),
        surprises=frozenset(node.name for node in left),
        stops=tuple(stops),
    )


def _emptied(
    look: FirstLook, missing: Sequence[Node], unconfirmed: Sequence[Node], surprising: Collection[str]
) -> list[Stop]:
    """A stop for each platform all of whose nodes are missing, and not all of them as announced."""
    absent = collections.Counter(look.platform(node) for node in missing)
    stops = []
    for platform in sorted(surprising):
        if absent[platform] >= look.totals[platform]:
            held = tuple(node for node in unconfirmed if look.platform(node) == platform)
            stops.append(Stop(missing=held, of=look.totals[platform], allowed=None, platform=platform))
    return stops


def missing_nodes(look: FirstLook, answers: Mapping[str, Instance]) -> list[Node]:
    """The nodes that the cloud's answer lacks, as far as they have an id for another query."""
    return [node for node in look.ask if node.spec.provider_id and node.name not in answers]


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _allowed(total: int, limits: Limits) -> int:
    allowed = math.floor(limits.vanishing_share * total)
    return max(1, allowed) if limits.vanishing_share > 0 else allowed


def _waits_for_initialisation(node: Node, now: dt.datetime, limits: Limits) -> bool:
    if not wellknown.has_taint(node, wellknown.TAINT_UNINITIALIZED):
        return False
    created = node.metadata.creation_timestamp
    # Without an id there is no query until the node controller has found one.
    return (
        not node.spec.provider_id
        or created is None
        or (now - created).total_seconds() < limits.initialisation_wait_seconds
    )


def _is_confirmed(node: Node) -> bool:
    return node.metadata.annotations.get(wellknown.ANNOTATION_CONFIRM_DELETION) == "true"


def _is_announced(node: Node) -> bool:
    return node.deleting or wellknown.has_taint(node, *wellknown.TAINTS_OF_AUTOSCALERS)
