"""What the node lifecycle controller does in one pass over all nodes. Pure.

Invariants:
1. Only Owned nodes are asked about, tainted or deleted; with platforms, only those that say so by their providerID.
2. A node is deleted only with a providerID, when it is not Ready, was missing from the cloud's answer, and then the
   cloud said of that very id that it is gone.
3. When more nodes are missing than may vanish unannounced, none of these is deleted unless an operator confirmed it.
4. When all are missing, that is so for those that were announced too: it is the answer that is wrong.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Callable, Collection, Iterable, Mapping

from fairlead.api.core_v1 import Node
from fairlead.cloud import wellknown
from fairlead.cloud.ownership import owned_by_id
from fairlead.cloud.provider import Instance

__all__ = ["FirstLook", "Judgement", "Limits", "Stop", "first_look", "judge", "missing_nodes"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an operator may set."""

    # The share of this cloud's nodes that may vanish at once; one node always may, unless it is 0 or the last.
    vanishing_share: float = 0.1
    # A node that waits for the node controller is not asked about for so long: one of the two asks, not both.
    initialisation_wait_seconds: float = 120.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FirstLook:
    """What is to be done before the cloud is asked, and about which nodes to ask it."""

    untaint: tuple[Node, ...]  # Ready again, and still tainted as shut down
    ask: tuple[Node, ...]
    with_id: int  # how many nodes this cloud has, as far as they can be missed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """More nodes are missing than may vanish at once: people must look."""

    missing: tuple[Node, ...]  # those that nobody announced or confirmed; if all are missing, that nobody confirmed
    of: int  # with those that went lately
    allowed: int | None  # None: all of them are missing, which is never allowed
    recently: int = 0  # vanished so lately that they count with these; their nodes are deleted

    def __str__(self) -> str:
        return (
            f"{self._what()}: none is deleted. To delete those that are really gone, annotate them with "
            f"{wellknown.ANNOTATION_CONFIRM_DELETION}=true"
        )

    def _what(self) -> str:
        if self.allowed is None:
            return f"The cloud knows none of its {_nodes(self.of)} any more"
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
    stop: Stop | None


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
    with_id = 0
    for node in nodes:
        if not owned_by_id(node, platforms):
            continue
        is_known = bool(node.spec.provider_id) and recognises(node.spec.provider_id)
        with_id += is_known
        if wellknown.is_ready(node):
            if wellknown.has_taint(node, wellknown.SHUTDOWN_TAINT.key):
                untaint.append(node)
        elif (is_known or not node.spec.provider_id) and not _waits_for_initialisation(node, now, limits):
            ask.append(node)
    return FirstLook(untaint=tuple(untaint), ask=tuple(ask), with_id=with_id)


def judge(look: FirstLook, answers: Mapping[str, Instance], limits: Limits, *, recently_vanished: int = 0) -> Judgement:
    """What to do about the nodes that the cloud was asked about.

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
    allowed = _allowed(look.with_id + recently_vanished, limits)
    stop: Stop | None = None
    if unconfirmed and len(missing) >= look.with_id:
        stop = Stop(missing=tuple(unconfirmed), of=look.with_id, allowed=None)
        announced, surprises = [], []
    elif surprises and len(surprises) + recently_vanished > allowed:
        total = look.with_id + recently_vanished
        stop = Stop(missing=tuple(surprises), of=total, allowed=allowed, recently=recently_vanished)
        surprises = []
    return Judgement(
        taint=tuple(taint),
        confirm=(*confirmed, *announced, *surprises),
        surprises=frozenset(node.name for node in surprises),
        stop=stop,
    )


def missing_nodes(look: FirstLook, answers: Mapping[str, Instance]) -> list[Node]:
    """The nodes that the cloud's answer lacks, as far as they have an id by which it can be asked again."""
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
    # Without an id there is nothing to ask about until the node controller has found one.
    return (
        not node.spec.provider_id
        or created is None
        or (now - created).total_seconds() < limits.initialisation_wait_seconds
    )


def _is_confirmed(node: Node) -> bool:
    return node.metadata.annotations.get(wellknown.ANNOTATION_CONFIRM_DELETION) == "true"


def _is_announced(node: Node) -> bool:
    return node.deleting or wellknown.has_taint(node, *wellknown.TAINTS_OF_AUTOSCALERS)
