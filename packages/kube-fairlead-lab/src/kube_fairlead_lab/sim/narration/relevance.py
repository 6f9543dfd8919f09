"""Which part of a history matters for a failure: what is about those it names, and the bad luck that hit them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kube_fairlead_lab.sim.environment import Violation
from kube_fairlead_lab.sim.narration.entries import Entry, names_in
from kube_fairlead_lab.sim.plan import FAULTS
from kube_fairlead_lab.sim.trace import PLAN

__all__ = ["Extract", "relevant_entries"]

_MOST_LINES: Final = 80
_FAULT_SECONDS: Final = 90.0  # so long before it matters bad luck may have begun: as long as the longest pause
# What happens to these happens to everybody.
_EVERYBODYS: Final = frozenset({"apiserver", "disk", "checker", "weather"})
_NOBODYS: Final = frozenset({*_EVERYBODYS, PLAN, "user"})
_BY_REVISION: Final = frozenset({"durability", "linearizability"})  # these call a change by its number
_OF_NODES: Final = ("agent", "driver", "drain", "kubelet")


@dataclasses.dataclass(frozen=True, slots=True)
class Extract:
    """What is left of a history, as lines, and how many entries are not."""

    lines: tuple[str, ...]
    left_out: int


def relevant_entries(history: Sequence[Entry], violation: Violation) -> Extract:
    """Leave out what is about others, what was over before it began, and what only repeats itself."""
    names = _Names(history)
    words = names_in(violation.what)
    named = names.known(words)
    if violation.rule in _BY_REVISION:
        named |= words & {f"{entry.revision}" for entry in history if entry.is_durable}
    major = [entry for entry in history if not entry.is_minor]
    own = names.with_their_own(named)
    kept = [entry for entry in major if names.concerns(entry, named, own)] if named else major
    if len(kept) > _MOST_LINES:
        # What is about the very thing that went wrong comes before what is about those around it; late before early.
        things = names.things(named)
        ranked = sorted(kept, key=lambda entry: (bool(entry.names & things), entry.at))
        chosen = {id(entry) for entry in ranked[-_MOST_LINES:]}
        kept = [entry for entry in kept if id(entry) in chosen]
    return Extract(tuple(_lines(kept)), len(history) - len(kept))


def _lines(entries: Iterable[Entry]) -> Iterator[str]:
    """What one actor repeats is one line."""
    for _, same in itertools.groupby(entries, lambda entry: (entry.who, entry.what)):
        first, *more = same
        again = f"  ({len(more) + 1} times, the last at {more[-1].at:.6f})" if more else ""
        yield f"{first}{again}"


def _of_cloud(name: str) -> tuple[str, str]:
    return f"ccm-{name}-", f"cloud-{name}-"


class _Names:
    """Who and what there is in a history."""

    def __init__(self, history: Sequence[Entry]) -> None:
        self._parties = frozenset(name for entry in history for name in names_in(entry.who)) - _NOBODYS
        self._nodes = frozenset(entry.about for entry in history if entry.what.startswith("makes node "))
        self._made: dict[str, float] = {}  # when the last one of that name was made
        self._places: dict[str, set[str]] = {}  # by what is there: the nodes
        self._rivals: dict[str, set[str]] = {}  # by lease: who wants it
        for entry in history:
            if entry.is_durable:
                self._learn(entry)

    def _learn(self, entry: Entry) -> None:
        if entry.what.startswith("makes ") and not entry.what.startswith("makes transition "):
            self._made[entry.about] = entry.at
        self._places.setdefault(entry.about, set()).update(entry.names & self._nodes)
        if "lease " in entry.what:
            self._rivals.setdefault(entry.about, set()).update(entry.names & self._parties)

    def known(self, words: frozenset[str]) -> frozenset[str]:
        """Those words that are names; that of a cloud stands for it and its managers."""
        clouds = {party for party in self._parties for word in words if f"{party}-".startswith(_of_cloud(word))}
        return (words & (self._parties | self._nodes | self._made.keys())) - _NOBODYS | clouds

    def concerns(self, entry: Entry, named: frozenset[str], own: frozenset[str]) -> bool:
        """Whether an entry is about those that a failure names, or about what is their own."""
        since = {name: self._made.get(name, 0.0) for name in self.things(named) or named - self._made.keys()}
        early = _FAULT_SECONDS if entry.action is not None else 0.0  # it is wanted before it is made
        if any(entry.at >= at - early for name, at in since.items() if name in entry.names):
            return True
        is_everybodys = entry.who in _EVERYBODYS and not entry.is_durable
        is_bad_luck = is_everybodys or (entry.action is not None and entry.action.kind in FAULTS)
        began = min(since.values(), default=0.0) - (_FAULT_SECONDS if is_bad_luck else 0.0)
        return entry.at >= began and (is_everybodys or bool(entry.names & own))

    def things(self, named: frozenset[str]) -> frozenset[str]:
        """Those that are neither nodes nor processes: mostly what a failure is really about."""
        return named - self._nodes - self._parties

    def with_their_own(self, named: frozenset[str]) -> frozenset[str]:
        """The same, the nodes that they are on, the processes of those, clouds of managers, and who wants a lease."""
        nodes = {node for node in self._nodes if node in named or any(name.endswith(f"-{node}") for name in named)}
        nodes = nodes or {node for name in named for node in self._places.get(name, ())}
        own = {f"{kind}-{node}{twin}" for node in nodes for kind in _OF_NODES for twin in ("", "-twin")}
        rivals = {party for name in named - self._nodes for party in self._rivals.get(name, ())}
        clouds = {f"cloud-{name.split('-')[1]}" for name in named | rivals if name.startswith("ccm-")}
        return named | nodes | rivals | ((own | clouds) & self._parties)
