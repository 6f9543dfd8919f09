"""What the store keeps in memory: entries, and the changes between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

__all__ = ["HEAD", "Change", "Entry"]

# Every stored value begins with these bytes, so that the resource version (which is the revision of the row, known only
# when it is written) can be put in front of the rest without decoding anything.
HEAD = b'{"metadata":{'


@dataclasses.dataclass(slots=True, eq=False)
class Entry:
    """One object at one revision. Immutable by convention: a change makes a new entry."""

    key: str  # "namespace/name", or "name" for what has no namespace
    revision: int
    tail: bytes  # the stored value after HEAD; never empty, since every object has a name
    labels: Mapping[str, str]
    fields: Mapping[str, str]  # what field selectors can ask for

    @property
    def value(self) -> bytes:
        """The stored JSON: no kind, no apiVersion, no resourceVersion."""
        return HEAD + self.tail

    def wire(self, head: bytes) -> bytes:
        """The object as a client sees it; ``head`` is its kind and version up to the resource version."""
        return b'%b"%d",%b' % (head, self.revision, self.tail)


@dataclasses.dataclass(slots=True, eq=False)
class Change:
    """One committed step of one key: from ``before`` (None: it did not exist) to ``after`` (None: deleted).

    ``last`` is what a watcher is shown: ``after``, or the last state with the revision of its deletion.
    """

    revision: int
    before: Entry | None
    after: Entry | None
    last: Entry
    frames: dict[tuple[str, bytes], bytes] = dataclasses.field(default_factory=dict)

    def frame(self, kind: str, shown: Entry, head: bytes) -> bytes:
        """The line a watcher is sent. Made once, shared by every watcher that asks for the same."""
        known = self.frames.get((kind, head))
        if known is None:
            known = b'{"type":"%b","object":%b}\n' % (kind.encode(), shown.wire(head))
            self.frames[kind, head] = known
        return known
