"""The entries of a history, in order."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from kube_fairlead_lab.sim.action_plan import Action
from kube_fairlead_lab.sim.commits import Commit
from kube_fairlead_lab.sim.narration import descriptions
from kube_fairlead_lab.sim.narration.authors import Authors
from kube_fairlead_lab.sim.narration.write_log import Rejection, Write
from kube_fairlead_lab.sim.trace import PLAN, TraceEntry

__all__ = ["Entry", "names_in", "narrate"]

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_LIFE: Final = re.compile(r"(?<=\w)[#_]\d+\b")  # the run of a process: agent-1#2, and a holder's manager-1_2


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One line: which actor did what at which virtual time, and to which object."""

    at: float
    who: str
    what: str
    names: frozenset[str]
    action: Action | None = None
    about: str = ""  # the object that changed on the server's disk, if any
    revision: int = 0
    is_minor: bool = False

    @property
    def is_durable(self) -> bool:
        """Whether it is a change on the server's disk; its actor is the one who requested it."""
        return bool(self.revision)

    def __str__(self) -> str:
        tag = ""
        if self.action is not None:
            tag = f"  [{self.action.number}]" if self.who == PLAN else f"  [{self.action.number} {self.action.kind}]"
        if self.is_durable:
            tag = f"  @{self.revision}"
        return f"{self.at:12.6f}  {self.who:<17} {self.what}{tag}"


def names_in(text: str) -> frozenset[str]:
    """Return every word that may be a name: of an actor without its run, of an object without its namespace."""
    return frozenset(found.rstrip(".") for found in _NAME.findall(_LIFE.sub("", text)))


def narrate(facts: Sequence[TraceEntry]) -> tuple[Entry, ...]:
    """Describe all facts."""
    authors = Authors()
    # An action that hit an actor is shown as that actor's entry.
    hit = {fact.action.number for fact in facts if fact.action is not None and fact.who != PLAN}
    entries: list[Entry] = []
    for number, fact in enumerate(facts):
        match fact.what:
            case str(text):
                if fact.who == PLAN and fact.action is not None and fact.action.number in hit:
                    continue
                if fact.who == "apiserver" and text.startswith("starts"):
                    authors.server_died()
                entries.append(Entry(fact.at, fact.who, text, names_in(f"{fact.who} {text}"), fact.action))
            case Write() as write:
                authors.begun(fact.at, write)
            case Rejection(write):
                entries.append(_rejected(fact.at, write))
            case Commit() as commit:
                entries.append(_changed(fact.at, authors.of(commit, number), commit))
            case other:
                raise TypeError(f"no description for {other!r}")
    return tuple(entries)


def _changed(at: float, author: str, commit: Commit) -> Entry:
    said = descriptions.describe(commit)
    names = names_in(" ".join((author, f"{commit.revision}", *said.names)))
    return Entry(at, author, said.text, names, about=said.about, revision=commit.revision, is_minor=said.is_minor)


def _rejected(at: float, write: Write) -> Entry:
    info, response = write.info, write.response
    what = "/".join(part for part in (info.resource, info.namespace, info.name, info.subresource) if part)
    status, why = 0, ""
    if response is not None:
        status = response.status
        why = _message(response.body)
    text = f"fails to {info.verb} {what}: {status} {why}".rstrip()
    return Entry(at, write.party, text, names_in(f"{write.party} {info.name}"))


def _message(body: object) -> str:
    text = body if isinstance(body, bytes) else b"".join(body) if isinstance(body, list) else b""
    try:
        said = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return ""
    return str(said.get("message", "")) if isinstance(said, dict) else ""
