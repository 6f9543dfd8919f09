"""Messages of D-Bus against dbus-fast, which is tested against the daemons."""

from __future__ import annotations

import io
from typing import Any

import dbus_fast
import pytest
from dbus_fast._private.unmarshaller import Unmarshaller
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.agent.shutdown import dbus
from kube_fairlead.agent.shutdown.dbus import Kind, MalformedMessage, Message

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
BASIC: dict[str, st.SearchStrategy[Any]] = {
    "y": st.integers(0, 255),
    "b": st.booleans(),
    "n": st.integers(-(1 << 15), (1 << 15) - 1),
    "q": st.integers(0, (1 << 16) - 1),
    "i": st.integers(-(1 << 31), (1 << 31) - 1),
    "u": st.integers(0, (1 << 32) - 1),
    "x": st.integers(-(1 << 63), (1 << 63) - 1),
    "t": st.integers(0, (1 << 64) - 1),
    "d": st.floats(allow_nan=False),
    "s": TEXT,
    "o": st.sampled_from(["/", "/org/freedesktop/login1"]),
    "g": st.sampled_from(["", "s", "a{sv}"]),
}


@st.composite
def signatures(draw: st.DrawFn, depth: int = 3) -> str:
    """One complete type."""
    form = draw(st.sampled_from("bavsd" if depth else "b"))
    if form == "a":
        return "a" + draw(signatures(depth - 1))
    if form == "v":
        return "v"
    if form == "s":
        return f"({''.join(draw(st.lists(signatures(depth - 1), min_size=1, max_size=3)))})"
    if form == "d":
        return f"a{{{draw(st.sampled_from(sorted(BASIC)))}{draw(signatures(depth - 1))}}}"
    return draw(st.sampled_from(sorted(BASIC)))


@st.composite
def values(draw: st.DrawFn, signature: str, depth: int = 2) -> Any:
    """A value of a type, as dbus-fast takes it."""
    if signature in BASIC:
        return draw(BASIC[signature])
    if signature == "v":
        inner = draw(signatures(1 if depth else 0).filter(lambda one: depth or "v" not in one))
        return dbus_fast.Variant(inner, draw(values(inner, depth - 1)))
    if signature.startswith("a{"):
        entries = draw(st.lists(st.tuples(values(signature[2]), values(signature[3:-1], depth)), max_size=3))
        return dict(entries)
    if signature.startswith("ay"):
        return draw(st.binary(max_size=5))
    if signature.startswith("a"):
        return draw(st.lists(values(signature[1:], depth), max_size=3))
    return [draw(values(one, depth)) for one in dbus._complete_types(signature[1:-1])]


def plain(value: Any) -> Any:
    """As our reader gives it."""
    if isinstance(value, dbus_fast.Variant):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | bytes):
        return [plain(one) for one in value]
    return value


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, list[Any]]:
    kinds = draw(st.lists(signatures(), max_size=4))
    return "".join(kinds), [draw(values(kind)) for kind in kinds]


def theirs(signature: str, body: list[Any]) -> bytes:
    message = dbus_fast.Message(
        destination="org.freedesktop.login1",
        path="/org/freedesktop/login1",
        interface="org.freedesktop.login1.Manager",
        member="Inhibit",
        signature=signature,
        body=body,
        serial=7,
    )
    return bytes(message._marshall(False))


@given(bodies())
def test_what_the_library_writes_is_read(content: tuple[str, list[Any]]) -> None:
    data = theirs(*content)
    assert dbus.size(data[: dbus.HEAD_BYTES]) == len(data)
    assert dbus.decode(data) == Message(
        kind=Kind.CALL,
        serial=7,
        destination="org.freedesktop.login1",
        path="/org/freedesktop/login1",
        interface="org.freedesktop.login1.Manager",
        member="Inhibit",
        signature=content[0],
        body=plain(content[1]),
    )


@given(st.lists(st.sampled_from(sorted(BASIC)).flatmap(lambda kind: st.tuples(st.just(kind), BASIC[kind])), max_size=6))
def test_what_is_written_the_library_reads(content: list[tuple[str, Any]]) -> None:
    message = Message(
        kind=Kind.ERROR,
        serial=9,
        reply_serial=4,
        destination=":1.7",
        error_name="org.freedesktop.DBus.Error.Failed",
        signature="".join(kind for kind, _ in content),
        body=[value for _, value in content],
    )
    data = dbus.encode(message)
    read = Unmarshaller(io.BytesIO(data)).unmarshall()  # type: ignore[arg-type]  # any stream will do
    assert read is not None
    assert (read.message_type.value, read.serial, read.reply_serial) == (Kind.ERROR, 9, 4)
    assert (read.destination, read.error_name) == (":1.7", "org.freedesktop.DBus.Error.Failed")
    assert (read.signature, read.body) == (message.signature, message.body)
    assert dbus.decode(data) == message


@given(bodies(), st.data())
def test_whatever_is_changed_it_is_read_or_malformed(content: tuple[str, list[Any]], data: st.DataObject) -> None:
    changed = bytearray(theirs(*content))
    for _ in range(data.draw(st.integers(0, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(changed)[: data.draw(st.integers(dbus.HEAD_BYTES, len(changed)))]
    try:
        dbus.size(whole[: dbus.HEAD_BYTES])
        dbus.descriptor_count(whole)
        dbus.decode(whole, [3, 4])
    except MalformedMessage:
        pass


def test_the_other_order_of_bytes() -> None:
    """A peer on the same machine has ours; the specification allows both."""
    data = bytes.fromhex("42020101 00000004 00000003 0000000f 05017500 00000007 08016700 01750000 0000002a")
    assert dbus.size(data[:16]) == len(data)
    assert dbus.decode(data) == Message(
        kind=Kind.RETURN, serial=3, reply_serial=7, signature="u", body=[42], wants_reply=False
    )


@pytest.mark.parametrize("signature", ["(", ")", "()", "a", "{sv}", "a{vs}", "a{s}", "a{sss}", "z", "a{(s)s}", "((s)"])
def test_what_is_no_signature(signature: str) -> None:
    with pytest.raises((MalformedMessage, IndexError)):
        list(dbus._complete_types(signature))


def test_a_message_that_is_too_long_is_not_waited_for() -> None:
    head = bytearray(theirs("s", ["x"])[:16])
    head[4:8] = (dbus.MESSAGE_BYTES_MAX).to_bytes(4, "little")
    with pytest.raises(MalformedMessage):
        dbus.size(bytes(head))


def test_nesting_has_a_limit() -> None:
    value: Any = 1
    for _ in range(70):
        value = dbus_fast.Variant("v" if isinstance(value, dbus_fast.Variant) else "i", value)
    with pytest.raises(MalformedMessage, match="deeply"):
        dbus.decode(theirs("v", [value]))
