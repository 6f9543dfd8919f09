"""The state machine of a connection: when it reads, what it holds and what it waits for. Without a socket.

The connection reports events and acts on the state: `parsing`, `reading` and `waits_for` are functions of the state, so
no event can forget to resume what another one paused.
"""

from __future__ import annotations

import enum

from kube_fairlead_apiserver.http.messages import MAX_BODY_BYTES

__all__ = [
    "AHEAD_BYTES",
    "MAX_EXCESS_BYTES",
    "MAX_HEAD_BYTES",
    "ConnectionState",
    "InvariantBroken",
    "RequestPhase",
    "ResponsePhase",
    "Wait",
]

MAX_HEAD_BYTES = 64 * 1024
# Bytes that are kept before a handler requests them.
AHEAD_BYTES = 64 * 1024
# Chunk sizes, chunk extensions and trailers are no data. A body may have this many bytes of them beyond its needs.
MAX_EXCESS_BYTES = 32 * 1024
_EXCESS_BYTES_PER_CHUNK = 16


class InvariantBroken(Exception):
    """The state machine is in an invalid state."""


class RequestPhase(enum.Enum):
    """The phase of the request that is being received."""

    NEXT = "next"  # the last one is complete, none has begun
    HEAD = "head"
    BODY = "body"


class ResponsePhase(enum.Enum):
    """The phase of the response."""

    NONE = "none"  # no handler runs
    HANDLING = "handling"  # a handler runs; it may ask for the body
    RESPONDING = "responding"  # the response is being sent; the body is not needed any more


class Wait(enum.IntEnum):
    """What the server waits for. Each has a deadline, except the server's own work."""

    SERVER = 0  # the client owes nothing
    HEAD = 1  # the client sends the head of a request
    BODY = 2  # the client sends the body of the request that is being answered
    NEXT = 3  # the client may send another request
    ROOM = 4  # the client reads what it was sent
    GOODBYE = 5  # the client reads the last answer and hangs up


# Attribute lookup of an enum is slow, and every request needs these several times.
_HEAD, _BODY, _NEXT = RequestPhase.HEAD, RequestPhase.BODY, RequestPhase.NEXT
_NONE, _HANDLING, _RESPONDING = ResponsePhase
_SERVER, _ROOM, _GOODBYE = Wait.SERVER, Wait.ROOM, Wait.GOODBYE
_FOR_HEAD, _FOR_BODY, _FOR_NEXT = Wait.HEAD, Wait.BODY, Wait.NEXT


class ConnectionState:
    """The state of one connection.

    F1. A connection without a request in progress reads. Reading pauses only while a request is in progress or queued,
        so a later step of the server resumes it: the handler requests the body, or the response begins, or ends.
    F2. A complete request pauses nothing by its size.
    F3. Before a handler requests a body, at most `AHEAD_BYTES` and one slice of the parser are held; afterwards at most
        `MAX_BODY_BYTES`. Of a body that is too large or not needed any more, nothing is held.
    F4. While a complete request waits behind the current one, nothing is parsed. Unparsed bytes are kept, at most
        `AHEAD_BYTES` and one read.
    F5. Bytes of an ended or malformed connection are dropped. It never pauses.
    F6. A deadline runs whenever the server waits for the client: the rest of a head or body, a next request, or room.
    F7. Heads, and the overhead of a chunked body, are bounded in bytes.
    """

    __slots__ = (
        "_chunk_allowance",
        "_crossed",
        "_slice_data",
        "answer",
        "body_bytes",
        "broken",
        "dropping",
        "ended",
        "excess_bytes",
        "head_bytes",
        "held_back",
        "phase",
        "refused",
        "requests",
        "unparsed_bytes",
        "waiting",
        "wanted",
    )

    def __init__(self) -> None:
        self.phase = _HEAD  # a new connection waits for a request
        self.answer = ResponsePhase.NONE
        self.waiting = 0  # requests with a complete head and no handler yet
        self.requests = 0  # heads that have begun so far
        self.head_bytes = 0
        self.body_bytes = 0  # held of the request that is being received
        self.excess_bytes = 0
        self.unparsed_bytes = 0
        self.wanted = False  # the handler requested the current body
        self.dropping = False  # the rest of that body is not kept
        self.held_back = False  # the client does not read
        self.broken = False  # no further bytes can be a request
        self.refused = False  # because it was malformed or too large
        self.ended = False  # the last response was sent
        self._crossed = False
        self._slice_data = 0
        self._chunk_allowance = 0

    # ---- what follows from the state

    @property
    def parsing(self) -> bool:
        """Whether bytes go to the parser now; otherwise they are kept, or dropped (`deaf`)."""
        if self.phase is not _BODY:
            return not (self.waiting or self.broken or self.ended)
        stuffed = self.body_bytes > AHEAD_BYTES and not self.wanted and not self.dropping
        return not (stuffed or self.broken)

    @property
    def deaf(self) -> bool:
        """Whether received bytes are dropped. The rest of a body is still parsed after the response."""
        return self.broken or (self.ended and self.phase is not _BODY)

    @property
    def reading(self) -> bool:
        """Whether bytes are read from the network."""
        return self.outlook()[0]

    @property
    def waits_for(self) -> Wait:
        """What the server waits for."""
        return self.outlook()[1]

    def outlook(self) -> tuple[bool, Wait]:
        """`reading` and `waits_for` in one call, because every event needs both."""
        parsing = self.parsing
        reading = parsing or self.unparsed_bytes < AHEAD_BYTES or self.deaf
        if self.ended:
            return reading, _GOODBYE
        if self.answer is _RESPONDING:
            return reading, _ROOM if self.held_back else _SERVER
        if not parsing:
            return reading, _SERVER
        if self.answer is _HANDLING:
            # A second request has no deadline before the response to the first.
            return reading, _FOR_BODY if self.phase is _BODY and not self.waiting else _SERVER
        if self.waiting:
            return reading, _FOR_BODY if self.phase is _BODY and self.waiting == 1 else _SERVER
        return reading, _FOR_NEXT if self.phase is _NEXT else _FOR_HEAD

    @property
    def idle(self) -> bool:
        """Whether every request has its response, and none has begun."""
        return self.phase is _NEXT and self.answer is _NONE and not (self.waiting or self.broken or self.ended)

    @property
    def handling(self) -> int:
        """Requests in progress: one or none."""
        return 0 if self.answer is ResponsePhase.NONE else 1

    @property
    def may_go_on(self) -> bool:
        """Whether this connection can serve another request."""
        return not self.ended and (self.waiting > 0 or not self.broken)

    @property
    def may_close(self) -> bool:
        """Whether the last response was sent, and the client sends nothing more.

        If the connection closed while the client still sends, the client might never read the reason of the rejection.
        """
        return self.ended and not self.refused and self.phase is not _BODY

    # ---- what the client does

    def head_began(self) -> None:
        """Note the first byte of a request."""
        self.phase = _HEAD
        self._crossed = True
        self.requests += 1
        self.head_bytes = self.body_bytes = self.excess_bytes = 0
        self.wanted = self.dropping = False

    def head_ended(self, declared_bytes: int) -> None:
        """Note a complete head: its request waits for the handler. Its body may be declared too large."""
        self.phase = _BODY
        self.waiting += 1
        self._crossed = True
        self.head_bytes = 0
        self.dropping = self.ended or declared_bytes > MAX_BODY_BYTES

    def body_arrived(self, size: int) -> bool:
        """Note a piece of the body; returns whether it is kept."""
        self._slice_data += size
        if not self.dropping:
            self.body_bytes += size
            self.dropping = self.body_bytes > MAX_BODY_BYTES
        if self.dropping:
            self.body_bytes = 0
        return not self.dropping

    def chunk_began(self) -> None:
        """Note the size of a chunk."""
        self._chunk_allowance += _EXCESS_BYTES_PER_CHUNK

    def body_ended(self) -> None:
        """Note that the request is complete."""
        self.phase = _NEXT
        self._crossed = True

    def slice_parsed(self, size: int) -> None:
        """The parser has consumed bytes; `too_large` is set when there are too many.

        A slice in which a head or body begins or ends counts for neither, because the parser does not say where.
        """
        if self._crossed:
            self._crossed = False
        elif self.phase is _HEAD:
            self.head_bytes += size
        elif self.phase is _BODY:
            self.excess_bytes = max(0, self.excess_bytes + size - self._slice_data - self._chunk_allowance)
        self._slice_data = self._chunk_allowance = 0

    @property
    def too_large(self) -> bool:
        """Whether a head, or the overhead of a chunked body, exceeds its limit."""
        return self.head_bytes > MAX_HEAD_BYTES or self.excess_bytes > MAX_EXCESS_BYTES

    def broke(self, *, refused: bool) -> None:
        """Note that the input is malformed; its error response is queued like a request."""
        self.broken = True
        self.refused = self.refused or refused
        self.waiting += refused
        self.unparsed_bytes = 0

    # ---- what the server does

    def taken(self) -> None:
        """Note that a handler starts the next request."""
        self.waiting -= 1
        self.answer = _HANDLING

    def body_wanted(self) -> None:
        """Note that the handler requests the body."""
        if self.waiting == 0:
            self.wanted = True

    def response_began(self) -> None:
        """Note that the handler has returned. The rest of an incomplete body is not needed."""
        self.answer = _RESPONDING
        if self.waiting == 0 and self.phase is _BODY:
            self.dropping = True
            self.body_bytes = 0

    def answered(self) -> None:
        """Note that the response was sent."""
        self.answer = ResponsePhase.NONE

    def end(self) -> None:
        """Serve no further request."""
        self.ended = True
        self.answer = ResponsePhase.NONE
        self.waiting = 0
        self.body_bytes = 0
        self.dropping = True
        if self.phase is not _BODY:
            self.unparsed_bytes = 0

    def check(self) -> None:
        """Raise InvariantBroken when one of the numbered invariants that a state shows does not hold."""
        owes = self.waiting + self.handling
        if not self.reading and not owes:
            raise InvariantBroken("F1: the connection owes no answer and does not read")
        if self.phase is not _BODY and not self.waiting and not self.deaf and not self.reading:
            raise InvariantBroken("F2: a complete request pauses by its size")
        if self.dropping and self.body_bytes:
            raise InvariantBroken("F3: a dropped body is held")
        if self.body_bytes > MAX_BODY_BYTES:
            raise InvariantBroken("F3: a body beyond the limit is held")
        if self.waiting and self.phase is not _BODY and self.parsing:
            raise InvariantBroken("F4: parsing goes on behind a waiting request")
        if self.deaf and (self.unparsed_bytes or not self.reading):
            raise InvariantBroken("F5: what is dropped is kept, or reading is paused")
        if not owes and self.waits_for is Wait.SERVER:
            raise InvariantBroken("F6: the client owes a request and no deadline runs")
