"""Selects the entries that matter for a failure: those of the objects and actors it names, and faults that hit them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kube_fairlead_lab.sim.action_plan import FAULTS
from kube_fairlead_lab.sim.environment import Violation
from kube_fairlead_lab.sim.narration.entries import Entry, names_in
from kube_fairlead_lab.sim.trace import PLAN

__all__ = ["Extract", "relevant_entries"]

_MOST_LINES: Final = 80
_FAULT_SECONDS: Final = 90.0  # a fault can begin this long before it matters: the longest pause
# Entries of these matter for every actor.
_SHARED: Final = frozenset({"apiserver", "disk", "checker", "simulation"})
_UNSPECIFIC: Final = frozenset({*_SHARED, PLAN, "user"})
_BY_REVISION: Final = frozenset({"durability", "linearizability"})  # these rules name a change by its revision
_OF_NODES: Final = ("agent", "driver", "drain", "kubelet")


@dataclasses.dataclass(frozen=True, slots=True)
class Extract:
    """The selected lines, and the number of omitted entries."""

    lines: tuple[str, ...]
    omitted: int


def relevant_entries(history: Sequence[Entry], violation: Violation) -> Extract:
    """Omit entries about other objects, entries from before the object's creation, and repetitions."""
    names = _Names(history)
    words = names_in(violation.what)
    named = names.known(words)
    if violation.rule in _BY_REVISION:
        named |= words & {f"{entry.revision}" for entry in history if entry.is_durable}
    major = [entry for entry in history if not entry.is_minor]
    own = names.with_their_own(named)
    kept = [entry for entry in major if names.concerns(entry, named, own)] if named else major
    if len(kept) > _MOST_LINES:
        # Entries about the failed object come before those about actors around it, later before earlier ones.
        things = names.things(named)
        ranked = sorted(kept, key=lambda entry: (bool(entry.names & things), entry.at))
        chosen = {id(entry) for entry in ranked[-_MOST_LINES:]}
        kept = [entry for entry in kept if id(entry) in chosen]
    return Extract(tuple(_lines(kept)), len(history) - len(kept))


def _lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Merge repetitions into one line."""
    for _, same in itertools.groupby(entries, lambda entry: (entry.who, entry.what)):
        first, *more = same
        again = f"  ({len(more) + 1} times, the last at {more[-1].at:.6f})" if more else ""
        yield f"{first}{again}"


def _of_cloud(name: str) -> tuple[str, str]:
    return f"ccm-{name}-", f"cloud-{name}-"


class _Names:
    """The actors and objects of a history."""

    def __init__(self, history: Sequence[Entry]) -> None:
        self._actors = frozenset(name for entry in history for name in names_in(entry.who)) - _UNSPECIFIC
        self._nodes = frozenset(entry.about for entry in history if entry.what.startswith("creates node "))
        self._created_at: dict[str, float] = {}  # when the last object of that name was created
        self._places: dict[str, set[str]] = {}  # object -> its nodes
        self._candidates: dict[str, set[str]] = {}  # Lease -> candidates
        for entry in history:
            if entry.is_durable:
                self._learn(entry)

    def _learn(self, entry: Entry) -> None:
        if entry.what.startswith("creates ") and not entry.what.startswith("creates transition "):
            self._created_at[entry.about] = entry.at
        self._places.setdefault(entry.about, set()).update(entry.names & self._nodes)
        if "lease " in entry.what:
            self._candidates.setdefault(entry.about, set()).update(entry.names & self._actors)

    def known(self, words: frozenset[str]) -> frozenset[str]:
        """Return the words that are names; a cloud's name includes its managers."""
        clouds = {party for party in self._actors for word in words if f"{party}-".startswith(_of_cloud(word))}
        return (words & (self._actors | self._nodes | self._created_at.keys())) - _UNSPECIFIC | clouds

    def concerns(self, entry: Entry, named: frozenset[str], own: frozenset[str]) -> bool:
        """Return whether an entry is about what a failure names, or about what belongs to it."""
        since = {
            name: self._created_at.get(name, 0.0) for name in self.things(named) or named - self._created_at.keys()
        }
        early = _FAULT_SECONDS if entry.action is not None else 0.0  # the action precedes the creation
        if any(entry.at >= at - early for name, at in since.items() if name in entry.names):
            return True
        is_shared = entry.who in _SHARED and not entry.is_durable
        is_fault = is_shared or (entry.action is not None and entry.action.kind in FAULTS)
        began = min(since.values(), default=0.0) - (_FAULT_SECONDS if is_fault else 0.0)
        return entry.at >= began and (is_shared or bool(entry.names & own))

    def things(self, named: frozenset[str]) -> frozenset[str]:
        """Names that are neither nodes nor processes: usually the subject of a failure."""
        return named - self._nodes - self._actors

    def with_their_own(self, named: frozenset[str]) -> frozenset[str]:
        """Also their nodes, the processes of those, the clouds of managers, and the candidates of a Lease."""
        nodes = {node for node in self._nodes if node in named or any(name.endswith(f"-{node}") for name in named)}
        nodes = nodes or {node for name in named for node in self._places.get(name, ())}
        own = {f"{kind}-{node}{twin}" for node in nodes for kind in _OF_NODES for twin in ("", "-twin")}
        candidates = {party for name in named - self._nodes for party in self._candidates.get(name, ())}
        clouds = {f"cloud-{name.split('-')[1]}" for name in named | candidates if name.startswith("ccm-")}
        return named | nodes | candidates | ((own | clouds) & self._actors)
