"""The records of the store in memory: entries, and the changes between them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["HEAD", "Change", "Entry", "Origin", "split_value"]

# Every stored value begins with these bytes, so that the resourceVersion (the revision of the row, known only when it
# is written) can be inserted without decoding anything.
HEAD = b'{"metadata":{'
# The version of a custom resource comes first on the disk.
_VERSION = b'{"apiVersion":"'


# Structs rather than dataclasses: there is one for every object and every change, and the garbage collector can skip
# them, because they have no reference cycles.


class Origin(msgspec.Struct, eq=False, gc=False):
    """The version and schema that a custom resource was written with; the schema is identified by the instance.

    A changed definition has another origin for the same version; so has one that was read from the disk.
    """

    version: str


class Entry(msgspec.Struct, eq=False, gc=False):
    """One object at one revision. Immutable by convention: a change makes a new entry."""

    key: str  # "namespace/name", or "name" for a cluster-scoped object
    revision: int
    tail: bytes  # the stored value after HEAD; never empty, since every object has a name
    labels: Mapping[str, str]
    fields: Mapping[str, str]  # the fields for field selectors
    origin: Origin | None = None  # None for kinds that are stored in one version only

    @property
    def value(self) -> bytes:
        """The stored JSON: no kind, no apiVersion, no resourceVersion."""
        return HEAD + self.tail

    @property
    def durable(self) -> bytes:
        """The bytes on the disk: the value, with its version for kinds that may have several."""
        if self.origin is None:
            return self.value
        return b'%b%b",%b%b' % (_VERSION, self.origin.version.encode(), HEAD[1:], self.tail)

    def at(self, revision: int) -> Entry:
        """Return the same object at another revision: that of its deletion, or of when it was no longer selected."""
        return Entry(self.key, revision, self.tail, self.labels, self.fields, self.origin)

    def showing(self, tail: bytes) -> Entry:
        """Return the same object at the same revision with another encoding."""
        return Entry(self.key, self.revision, tail, self.labels, self.fields, self.origin)

    def wire(self, head: bytes) -> bytes:
        """Return the object as a client sees it; ``head`` is its kind and version up to the resource version."""
        return b'%b"%d",%b' % (head, self.revision, self.tail)

    def wire_parts(self, head: bytes) -> tuple[bytes, bytes]:
        """Return the parts of `wire`, without a copy of the stored bytes."""
        return b'%b"%d",' % (head, self.revision), self.tail


def split_value(durable: bytes) -> tuple[str, bytes]:
    """Split the bytes on the disk into the version ("" without one) and the tail."""
    if durable.startswith(HEAD):
        return "", durable[len(HEAD) :]
    start = durable.index(HEAD[1:])  # a version's name has no such characters
    return durable[len(_VERSION) : start - len(b'",')].decode(), durable[start - 1 + len(HEAD) :]


class Change(msgspec.Struct, eq=False, gc=False):
    """One committed step of one key: from ``before`` (None: it did not exist) to ``after`` (None: deleted).

    ``last`` is what a watcher sees: ``after``, or the last state with the revision of its deletion.
    """

    revision: int
    before: Entry | None
    after: Entry | None
    last: Entry
    frames: dict[tuple[str, bytes], bytes] = {}  # encoded watch lines; managed by `snapshot_readers.EncodedFrames`
