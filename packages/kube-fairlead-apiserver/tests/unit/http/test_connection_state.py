"""The machine of a connection, driven by every order of events that a parser, a client and a handler can produce."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kube_fairlead_apiserver.http.connection_state import (
    AHEAD_BYTES,
    MAX_EXCESS_BYTES,
    MAX_HEAD_BYTES,
    ConnectionState,
    RequestPhase,
    ResponsePhase,
    Wait,
)
from kube_fairlead_apiserver.http.messages import MAX_BODY_BYTES

SLICE = 64 * 1024
READ = 256 * 1024

sizes = st.one_of(st.integers(1, 200), st.integers(AHEAD_BYTES - 2, AHEAD_BYTES + 2), st.just(SLICE))


class Connections(RuleBasedStateMachine):
    """One connection, whose client sends whatever it likes and whose server does its steps in any legal order."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = ConnectionState()
        self.begun = False  # the head that is being received has had its first byte
        self.held_before_wanted = 0

    # ---- the client, as far as its bytes reach the parser

    def may_parse(self) -> bool:
        return self.flow.parsing

    @precondition(lambda self: self.may_parse() and self.flow.phase is not RequestPhase.BODY and not self.begun)
    @rule()
    def head_begins(self) -> None:
        self.flow.head_began()
        self.begun = True
        self.held_before_wanted = 0

    @precondition(lambda self: self.may_parse() and self.begun)
    @rule(declared=st.sampled_from([0, 10, MAX_BODY_BYTES, MAX_BODY_BYTES + 1]))
    def head_ends(self, declared: int) -> None:
        self.flow.head_ended(declared)
        self.begun = False

    @precondition(lambda self: self.may_parse() and self.flow.phase is RequestPhase.BODY)
    @rule(size=sizes, times=st.integers(1, 60))
    def body_arrives(self, size: int, times: int) -> None:
        for _ in range(times):
            if not self.flow.parsing:
                return
            kept = self.flow.body_arrived(size)
            self.flow.chunk_began()
            self.flow.slice_parsed(size)
            if kept and not self.flow.wanted:
                self.held_before_wanted += size
        assert not self.flow.too_large

    @precondition(lambda self: self.may_parse() and self.flow.phase is RequestPhase.BODY)
    @rule()
    def body_ends(self) -> None:
        self.flow.body_ended()
        self.held_before_wanted = 0

    @precondition(lambda self: not self.flow.parsing and not self.flow.deaf and self.flow.reading)
    @rule(size=st.integers(1, READ))
    def bytes_arrive_that_are_not_parsed(self, size: int) -> None:
        self.flow.unparsed_bytes += size

    @precondition(lambda self: self.may_parse() and not self.flow.ended)
    @rule(refused=st.booleans())
    def it_breaks(self, refused: bool) -> None:
        # Only a complete request can ask for an upgrade.
        if refused or (self.flow.waiting and self.flow.phase is not RequestPhase.BODY):
            self.flow.broke(refused=refused)

    @rule(held_back=st.booleans())
    def client_reads_or_not(self, held_back: bool) -> None:
        self.flow.held_back = held_back

    # ---- the server

    @precondition(lambda self: self.flow.waiting and self.flow.answer is ResponsePhase.NONE and not self.flow.ended)
    @rule()
    def handler_takes(self) -> None:
        self.flow.taken()
        self.take_in()

    @precondition(lambda self: self.flow.answer is ResponsePhase.HANDLING)
    @rule()
    def handler_wants_the_body(self) -> None:
        self.flow.body_wanted()
        self.take_in()

    @precondition(lambda self: self.flow.answer is ResponsePhase.HANDLING)
    @rule()
    def response_begins(self) -> None:
        self.flow.response_began()
        self.take_in()

    @precondition(lambda self: self.flow.answer is ResponsePhase.RESPONDING)
    @rule()
    def response_ends(self) -> None:
        incomplete = self.flow.phase is RequestPhase.BODY and self.flow.waiting == 0
        if incomplete or not self.flow.may_go_on:
            self.flow.end()
        else:
            self.flow.answered()
        self.take_in()

    @rule()
    def client_hangs_up(self) -> None:
        self.flow.end()
        self.take_in()

    def take_in(self) -> None:
        """The connection parses what it kept as soon as it may."""
        if self.flow.parsing or self.flow.deaf:
            self.flow.unparsed_bytes = 0

    # ---- what always holds

    @invariant()
    def numbered(self) -> None:
        self.flow.check()

    @invariant()
    def what_is_held_is_bounded(self) -> None:
        assert self.flow.unparsed_bytes < AHEAD_BYTES + READ
        if self.flow.phase is RequestPhase.BODY and not self.flow.wanted and not self.flow.dropping:
            assert self.held_before_wanted <= AHEAD_BYTES + SLICE

    @invariant()
    def the_server_s_own_steps_lead_to_reading(self) -> None:
        """From wherever it stands, the present answers end and the connection reads, or has ended and reads."""
        twin = copy_of(self.flow)
        for _ in range(twin.waiting + twin.handling):
            if twin.answer is ResponsePhase.NONE and not twin.ended:
                twin.taken()
            twin.response_began()
            incomplete = twin.phase is RequestPhase.BODY and twin.waiting == 0
            if incomplete or not twin.may_go_on:
                twin.end()
                break
            twin.answered()
        twin.unparsed_bytes = 0 if twin.parsing or twin.deaf else twin.unparsed_bytes
        assert twin.reading
        assert twin.waits_for is not Wait.SERVER


def copy_of(flow: ConnectionState) -> ConnectionState:
    twin = ConnectionState()
    for name in ConnectionState.__slots__:
        setattr(twin, name, getattr(flow, name))
    return twin


TestConnections = Connections.TestCase
TestConnections.settings = settings(max_examples=150, stateful_step_count=40)


def in_body(declared: int = 0) -> ConnectionState:
    flow = ConnectionState()
    flow.head_began()
    flow.head_ended(declared)
    return flow


def test_a_complete_body_does_not_pause_however_large() -> None:
    """F2, the mistake that this machine was made for: all of it came before the handler asked."""
    flow = in_body()
    flow.body_arrived(AHEAD_BYTES + 1)
    flow.body_ended()
    flow.taken()
    assert flow.reading
    flow.response_began()
    flow.answered()
    assert flow.parsing
    assert flow.waits_for is Wait.NEXT


def shows(flow: ConnectionState, name: str) -> bool:
    return bool(getattr(flow, name))


def waits(flow: ConnectionState) -> Wait:
    return flow.waits_for


def test_a_body_that_no_handler_has_asked_for_is_not_parsed_beyond_the_bound() -> None:
    flow = in_body()
    flow.taken()
    flow.body_arrived(AHEAD_BYTES + 1)
    assert not shows(flow, "parsing")
    flow.unparsed_bytes = AHEAD_BYTES
    assert not shows(flow, "reading")
    assert waits(flow) is Wait.SERVER
    flow.body_wanted()
    assert shows(flow, "parsing")
    assert waits(flow) is Wait.BODY


def test_a_body_that_is_not_needed_any_more_is_read_and_dropped() -> None:
    flow = in_body()
    flow.taken()
    flow.body_arrived(AHEAD_BYTES + 1)
    flow.response_began()
    assert shows(flow, "parsing")
    assert not flow.body_arrived(10)
    assert flow.body_bytes == 0


def test_what_is_declared_too_large_is_never_held() -> None:
    flow = in_body(MAX_BODY_BYTES + 1)
    assert not flow.body_arrived(1)
    assert shows(flow, "parsing")


def test_one_request_waits_and_the_next_one_is_kept_as_bytes() -> None:
    flow = in_body()
    flow.body_ended()
    flow.taken()
    assert shows(flow, "parsing")
    flow.head_began()
    flow.head_ended(0)
    flow.body_ended()
    assert not shows(flow, "parsing")
    assert shows(flow, "reading")
    flow.unparsed_bytes = AHEAD_BYTES
    assert not shows(flow, "reading")


def test_no_deadline_of_the_next_request_ends_the_answer_to_the_one_before() -> None:
    flow = in_body()
    flow.body_ended()
    flow.taken()
    flow.response_began()
    flow.head_began()
    assert waits(flow) is Wait.SERVER
    flow.answered()
    assert waits(flow) is Wait.HEAD


def test_heads_and_trailers_are_bounded() -> None:
    flow = ConnectionState()
    flow.head_began()
    flow.slice_parsed(10)  # the slice in which it began
    flow.slice_parsed(MAX_HEAD_BYTES)
    assert not shows(flow, "too_large")
    flow.slice_parsed(1)
    assert shows(flow, "too_large")
    flow = in_body()
    flow.slice_parsed(10)
    for _ in range(100_000):  # chunks of one byte each are a lot of overhead, and legal
        flow.body_arrived(1)
        flow.chunk_began()
        flow.slice_parsed(6)
    assert not shows(flow, "too_large")
    flow.slice_parsed(MAX_EXCESS_BYTES + 1)
    assert shows(flow, "too_large")
