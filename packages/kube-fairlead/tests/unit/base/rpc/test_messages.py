"""Our messages against Google's library, on the same descriptors."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError as GooglesError
from hypothesis import example, given
from hypothesis import strategies as st

from kube_fairlead.base.rpc.contract import Contract
from kube_fairlead.base.rpc.messages import Message
from kube_fairlead.base.rpc.protobuf import DecodeError

SOURCE = pathlib.Path(__file__).parents[4] / "src" / "kube_fairlead"
TYPE = descriptor_pb2.FieldDescriptorProto
NUMBERS = {
    TYPE.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    TYPE.TYPE_SINT32: (-(1 << 31), (1 << 31) - 1),
    TYPE.TYPE_SFIXED32: (-(1 << 31), (1 << 31) - 1),
    TYPE.TYPE_ENUM: (-(1 << 31), (1 << 31) - 1),
    TYPE.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    TYPE.TYPE_SINT64: (-(1 << 63), (1 << 63) - 1),
    TYPE.TYPE_SFIXED64: (-(1 << 63), (1 << 63) - 1),
    TYPE.TYPE_UINT32: (0, (1 << 32) - 1),
    TYPE.TYPE_FIXED32: (0, (1 << 32) - 1),
    TYPE.TYPE_UINT64: (0, (1 << 64) - 1),
    TYPE.TYPE_FIXED64: (0, (1 << 64) - 1),
}


def every_type() -> descriptor_pb2.FileDescriptorSet:
    """A message with a field of every type: alone, optional, in a oneof, repeated, and as the value of a map."""
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="t", syntax="proto3")
    file.enum_type.add(name="Color").value.add(name="NONE", number=0)
    made = file.message_type.add(name="All")
    kinds = [kind for kind in TYPE.Type.values() if kind != TYPE.TYPE_GROUP]
    made.oneof_decl.add(name="choice")
    number = 0
    for form in ("alone", "choice", "repeated", "map", "optional"):
        for kind in kinds:
            number += 1
            field = made.field.add(name=f"{form}_{kind}", number=number, type=kind, label=TYPE.LABEL_OPTIONAL)
            target = field
            if form == "map":
                entry = made.nested_type.add(name=f"Map{kind}Entry")
                entry.options.map_entry = True
                key = TYPE.TYPE_STRING if kind % 2 else TYPE.TYPE_SINT64
                entry.field.add(name="key", number=1, type=key, label=TYPE.LABEL_OPTIONAL)
                target = entry.field.add(name="value", number=2, type=kind, label=TYPE.LABEL_OPTIONAL)
                field.type, field.type_name = TYPE.TYPE_MESSAGE, f".t.All.Map{kind}Entry"
            if kind in {TYPE.TYPE_MESSAGE, TYPE.TYPE_ENUM}:
                target.type_name = ".t.All" if kind == TYPE.TYPE_MESSAGE else ".t.Color"
            if form in {"repeated", "map"}:
                field.label = TYPE.LABEL_REPEATED
            elif form == "choice":
                field.oneof_index = 0
            elif form == "optional":
                made.oneof_decl.add(name=f"_{field.name}")
                field.oneof_index = len(made.oneof_decl) - 1
                field.proto3_optional = True
    return descriptor_pb2.FileDescriptorSet(file=[file])


class FileContract(Contract):
    def __init__(self, file: pathlib.Path) -> None:
        super().__init__("", file.name)
        self._path = file

    def _read(self) -> bytes:
        return self._path.read_bytes()


def googles(data: bytes) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return pool


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    file = tmp_path_factory.mktemp("contract") / "all.binpb"
    file.write_bytes(every_type().SerializeToString())
    theirs = message_factory.GetMessageClass(googles(file.read_bytes()).FindMessageTypeByName("t.All"))
    return FileContract(file).message("t.All"), theirs


def plain(message: Any) -> object:
    """A message of either library as plain data."""
    if isinstance(message, Message):
        content = message.present()
    else:
        content = {field.name: value for field, value in message.ListFields()}
    return {name: _plain_value(value) for name, value in content.items()}


def _plain_value(value: Any) -> object:
    if hasattr(value, "SerializeToString"):
        return plain(value)
    if hasattr(value, "items"):
        return {str(key): _plain_value(one) for key, one in value.items()}
    if hasattr(value, "append"):
        return [_plain_value(one) for one in value]
    return repr(value)  # NaN equals itself, and a negative zero no positive one


def scalars(kind: int) -> st.SearchStrategy[Any]:
    if kind in NUMBERS:
        return st.integers(*NUMBERS[kind])
    if kind == TYPE.TYPE_BOOL:
        return st.booleans()
    if kind in {TYPE.TYPE_DOUBLE, TYPE.TYPE_FLOAT}:
        return st.floats(width=32)
    return st.text(max_size=9) if kind == TYPE.TYPE_STRING else st.binary(max_size=9)


@st.composite
def contents(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    """Values by field. A message is a dictionary; of the fields of the oneof there is at most one."""
    kinds = [kind for kind in TYPE.Type.values() if kind != TYPE.TYPE_GROUP]
    content: dict[str, Any] = {}
    for _ in range(draw(st.integers(0, 6))):
        kind, form = (
            draw(st.sampled_from(kinds)),
            draw(st.sampled_from(["alone", "choice", "repeated", "map", "optional"])),
        )
        if form == "choice" and any(name.startswith("choice") for name in content):
            continue
        if kind == TYPE.TYPE_MESSAGE and not depth:
            continue
        values = contents(depth - 1) if kind == TYPE.TYPE_MESSAGE else scalars(kind)
        if form == "repeated":
            content[f"{form}_{kind}"] = draw(st.lists(values, max_size=3))
        elif form == "map":
            keys = st.text(max_size=4) if kind % 2 else st.integers(-(1 << 63), (1 << 63) - 1)
            content[f"{form}_{kind}"] = draw(st.dictionaries(keys, values, max_size=3))
        else:
            content[f"{form}_{kind}"] = draw(values)
    return content


def built(kind: Any, content: dict[str, Any]) -> Any:
    def value_of(value: Any, name: str) -> Any:
        if not name.endswith(f"_{TYPE.TYPE_MESSAGE}"):
            return value
        if name.startswith("map"):
            return {key: built(kind, one) for key, one in value.items()}
        return [built(kind, one) for one in value] if isinstance(value, list) else built(kind, value)

    return kind(**{name: value_of(value, name) for name, value in content.items()})


@given(content=contents())
def test_each_reads_what_the_other_writes(both: tuple[Any, Any], content: dict[str, Any]) -> None:
    ours, theirs = (built(kind, content) for kind in both)
    assert plain(ours) == plain(theirs)
    assert plain(both[0].FromString(theirs.SerializeToString())) == plain(theirs)
    assert plain(both[1].FromString(ours.SerializeToString())) == plain(theirs)
    assert ours.ByteSize() == len(ours.SerializeToString())


PIECES = st.one_of(
    st.binary(max_size=6),
    st.builds(lambda number, kind: bytes([number << 3 | kind]), st.integers(0, 15), st.integers(0, 7)),
    contents(),
)


@given(pieces=st.lists(PIECES, max_size=8))
@example([b"\x0b\x0c"])  # an empty group
@example([b"\x0b\x14"])  # a group that another one ends
@example([b"\x08" + b"\xff" * 9 + b"\x7f"])
@example([b"\x08" + b"\xff" * 10 + b"\x01"])
@example([b"\xff\xff\xff\xff\x7f\x00"])
def test_any_bytes_are_read_as_google_reads_them(both: tuple[Any, Any], pieces: list[Any]) -> None:
    data = b"".join(built(both[1], one).SerializeToString() if isinstance(one, dict) else one for one in pieces)
    try:
        expected = plain(both[1].FromString(data))
    except GooglesError:
        with pytest.raises(DecodeError):
            both[0].FromString(data)
        return
    assert plain(both[0].FromString(data)) == expected


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.binpb")), ids=lambda file: file.parent.name)
def test_the_descriptors_of_every_contract_are_read_as_google_reads_them(file: pathlib.Path) -> None:
    ours, theirs = FileContract(file), googles(file.read_bytes())
    files = descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes()).file
    assert files
    for one in files:
        for message in one.message_type:
            expected = theirs.FindMessageTypeByName(f"{one.package}.{message.name}")
            made = ours.message(expected.full_name).DESCRIPTOR
            assert [(f.name, f.number, f.is_repeated or f.entry is not None) for f in made.fields] == sorted(
                ((f.name, f.number, f.is_repeated) for f in expected.fields), key=lambda row: row[1]
            )
        for service in one.service:
            for method in service.method:
                types = ours.method_types(f"{one.package}.{service.name}", method.name)
                names = [method.input_type, method.output_type]
                assert [f".{kind.DESCRIPTOR.full_name}" for kind in types] == names


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"alone_5": 1 << 31}, ValueError),
        ({"alone_13": -1}, ValueError),
        ({"alone_9": 3}, TypeError),
        ({"alone_9": "\ud800"}, ValueError),
        ({"alone_12": "x"}, TypeError),
        ({"alone_5": "1"}, TypeError),
        ({"alone_5": 1.5}, TypeError),
        ({"alone_11": 3}, TypeError),
        ({"repeated_5": ["x"]}, TypeError),
        ({"nothing": 1}, ValueError),
    ],
)
def test_a_wrong_value_is_refused_as_google_refuses_it(
    both: tuple[Any, Any], content: dict[str, Any], error: type[Exception]
) -> None:
    for kind in both:
        with pytest.raises(error):
            kind(**content)


def test_a_message_inside_is_there_once_it_has_a_value(both: tuple[Any, Any]) -> None:
    for kind in both:
        made = kind()
        assert (made.alone_11.alone_5, made.HasField("alone_11")) == (0, False)
        made.alone_11.alone_5 = 0
        assert made.HasField("alone_11")
        assert made.SerializeToString() == kind(alone_11=kind()).SerializeToString() != b""
        made.ClearField("alone_11")
        assert made == kind()


def test_a_default_that_was_sent_equals_one_that_was_not(both: tuple[Any, Any]) -> None:
    number = both[0]._by_name["alone_5"].number
    for kind in both:
        assert kind.FromString(bytes([number << 3, 0])) == kind() == kind(alone_5=0, repeated_5=[])


def test_one_field_of_a_oneof_replaces_another(both: tuple[Any, Any]) -> None:
    for kind in both:
        made = kind(choice_9="")
        assert made.WhichOneof("choice") == "choice_9"
        made.choice_8 = False
        assert (made.WhichOneof("choice"), made.choice_9) == ("choice_8", "")
        assert kind.FromString(made.SerializeToString()).WhichOneof("choice") == "choice_8"
        with pytest.raises(AttributeError):
            made.nothing = 1
        with pytest.raises(AttributeError):
            made.repeated_5 = [1]


def test_nesting_has_a_limit(both: tuple[Any, Any]) -> None:
    number = both[0]._by_name["alone_11"].number
    data = b""
    for _ in range(150):
        data = bytes([number << 3 | 2]) + varint(len(data)) + data
    for kind, error in zip(both, (DecodeError, GooglesError), strict=True):
        with pytest.raises(error):
            kind.FromString(data)


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)
