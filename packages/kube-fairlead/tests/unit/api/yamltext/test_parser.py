from __future__ import annotations

import contextlib
import gc
import pathlib
import random
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_fairlead.api.yamltext import parser
from kube_fairlead.api.yamltext.parser import MAX_ALIASED, MAX_DEPTH, MAX_VALUES, Reading, YamlError, read

MEGABYTE = 1_000_000


def read_first(text: bytes | str) -> Reading:
    document = Reading(text)
    while not document.advance(100):
        pass
    return document


@pytest.mark.parametrize(
    ("text", "value", "repeated"),
    [
        ("", None, []),
        ("a: 1", {"a": 1}, []),
        ("a: {b: [1, {c: yes}]}", {"a": {"b": [1, {"c": True}]}}, []),
        ("a: 1\nb: 2\na: 3", {"a": 3, "b": 2}, ['line 3: key "a" already set in map']),
        # The line is the value's, and what is inside comes first.
        (
            "a:\n  b: 1\na:\n  c: 2\n  c: 3",
            {"a": {"c": 3}},
            [f'line {n}: key "{k}" already set in map' for n, k in ((5, "c"), (4, "a"))],
        ),
        ("- {x: 1, x: 2}\n- {x: 1}", [{"x": 2}, {"x": 1}], ['line 1: key "x" already set in map']),
        ("{1: a, 1: b}", {"1": "b"}, ["line 1: key 1 already set in map"]),
        ("{1: a, 1.5: b, true: c}", {"1": "a", "1.5": "b", "true": "c"}, []),
        ("\ufeffa: ä", {"a": "ä"}, []),
        # Only the first document is read.
        ("a: 1\n---\na: 2", {"a": 1}, []),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}, []),
        ("a: &x text\nb: {*x : *x}", {"a": "text", "b": {"text": "text"}}, []),
        ("<<: {a: 1}\nb: 2", {"a": 1, "b": 2}, []),
        ("<<: {a: 1}\na: 2", {"a": 2}, ['line 2: key "a" already set in map']),
        ("a: 2\n<<: {a: 1}", {"a": 1}, ['line 2: key "a" already set in map']),
        ("<<: [{a: 1, b: 2}, {a: 3, c: 4}]", {"a": 1, "b": 2, "c": 4}, ['line 1: key "a" already set in map']),
        ("x: &x {a: 1}\nz:\n  <<: *x\n  b: 2", {"x": {"a": 1}, "z": {"a": 1, "b": 2}}, []),
        ("'<<': {a: 1}", {"<<": {"a": 1}}, []),
    ],
)
def test_a_document_and_the_keys_it_has_twice(text: str, value: Any, repeated: list[str]) -> None:
    document = read_first(text.encode())
    assert (document.value, document.repeated) == (value, repeated)


def test_an_alias_stands_for_a_value_of_its_own() -> None:
    value = read("a: &x {c: [1]}\nb: *x")
    value["a"]["c"].append(2)
    assert value["b"] == {"c": [1]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 2, column 1: did not find expected node content"),
        ("a: &x [*x]", "line 1, column 8: anchor 'x' value contains itself"),
        ("*x", "line 1, column 1: unknown anchor 'x' referenced"),
        ("<<: 1", "map merge requires map or sequence of maps"),
        ("x: &x [{}]\n<<: *x", "map merge requires map or sequence of maps"),
        ("<<: [{}, 1]", "map merge requires map or sequence of maps"),
        ("%YAML 1.2\n---\na: 1", "found incompatible YAML document"),
        ("a: \x07", "control characters are not allowed"),
    ],
)
def test_what_is_wrong_and_where(text: str, problem: str) -> None:
    with pytest.raises(YamlError, match=problem.replace("[", r"\[")):
        read(text)


def test_a_file_has_one_document() -> None:
    assert read("a: 1\n...\n") == {"a": 1}
    with pytest.raises(YamlError, match="line 2, column 1: there is more than one document"):
        read("a: 1\n---\na: 2")


def test_text_that_is_none() -> None:
    with pytest.raises(YamlError, match="no text in UTF-8"):
        read(b"a: \xff")
    assert read("a: ü".encode("utf-16")) == {"a": "ü"}


# Where a limit is passed, no more is read than leads there: each takes moments, though most are of a megabyte. The
# process is one of its own: the fault was that it died.
HOSTILE = {
    "lists": b"[" * MEGABYTE,
    "maps": b"{" * MEGABYTE,
    "maps of maps": b"{a: " * (MEGABYTE // 4),
    "entries": b"- " * (MEGABYTE // 2),
    "keys": b"? " * (MEGABYTE // 2),
    "values": b"[" + b"1," * (MEGABYTE // 2) + b"]",
    "empty lists": b"[" + b"[]," * (MEGABYTE // 3) + b"]",
    "aliases": b"a: &a [" + b"x," * 1000 + b"]\nb: [" + b"*a," * 100_000 + b"]",
    "aliases of text": b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a," * 100_000 + b"]",
    "merges": b"<<: {" * 200 + b"a: 1," * 40_000 + b"}" * 199,
    "directives": b"".join(b"%%TAG !a%d! x\n" % n for n in range(MEGABYTE // 18)) + b"---\na",
    "directives with comments": b"# c\n\n \n%TAG !a! x\n" * (MEGABYTE // 20) + b"---\na",
    "other breaks": "\u2028".join(f"%TAG !a{n}! x" for n in range(MEGABYTE // 18)).encode(),
    "lists in UTF-16": ("\ufeff" + "[" * 100_000).encode("utf-16-le"),
}


def test_what_would_exhaust_a_stack_the_memory_or_the_time_is_refused() -> None:
    program = (
        "import sys, resource\n"
        "from kube_fairlead.api.yamltext.parser import YamlError, read\n"
        "from tests.unit.api.yamltext.test_parser import HOSTILE\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (60, 60))\n"
        "for name, text in HOSTILE.items():\n"
        "    try:\n"
        "        read(text)\n"
        "    except YamlError as error:\n"
        "        print(name, error, sep=': ')\n"
    )
    root = pathlib.Path(__file__).parents[4]
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    told = dict(line.split(": ", 1) for line in ended.stdout.splitlines())
    assert list(told) == list(HOSTILE)
    limits = ("exceeded max depth", f"more than {MAX_VALUES} values", "excessive aliasing", "directives")
    assert all(any(limit in what for limit in limits) for what in told.values()), told


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1:" * (MEGABYTE // 2) + b"1", "1:" * (MEGABYTE // 2) + "1"),
        (b"1" * MEGABYTE, "1" * MEGABYTE),
        (b"0" * MEGABYTE, 0),
        (b"0x" + b"f" * MEGABYTE, "0x" + "f" * MEGABYTE),
        (b"1_" * (MEGABYTE // 2), "1_" * (MEGABYTE // 2)),
        (b"1e" + b"9" * MEGABYTE, "1e" + "9" * MEGABYTE),
        (b"0." + b"1" * MEGABYTE, 0.1111111111111111),
    ],
    ids=["base 60", "decimal", "octal", "hexadecimal", "underscores", "exponent", "fraction"],
)
def test_a_number_of_a_megabyte_is_read_at_once(text: bytes, value: Any) -> None:
    assert read(text) == value


def test_the_limits_themselves_are_allowed() -> None:
    deep = read("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert isinstance(deep, list)
    assert len(read("[" + "1," * (MAX_VALUES - 1) + "]")) == MAX_VALUES - 1
    shared = read("a: &a [" + "1," * 999 + "]\nb: [" + "*a," * (MAX_ALIASED // 1000) + "]")
    assert len(shared["b"]) == MAX_ALIASED // 1000


def test_no_more_repeated_keys_are_kept_than_a_client_can_take_in() -> None:
    document = read_first("{" + "a: 1," * 3000 + "}")
    assert len(document.repeated) == parser.MAX_REPEATED + 1
    assert document.repeated[-1] == "and more"


_PIECES = st.sampled_from(
    [
        "<<: ",
        "&x ",
        "*x",
        "yes",
        *"ab1:?[]{},|>&*!%#~'\"\n\t\0\ufeff\U0001f600",
        ": ",
        "- ",
        "? ",
        "\n  ",
        "---\n",
        "...",
        "!!int ",
    ]
)


@given(st.one_of(st.lists(_PIECES, max_size=40).map("".join).map(str.encode), st.binary(max_size=200)))
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_a_value_or_an_error(text: bytes) -> None:
    with contextlib.suppress(YamlError):
        msgspec.json.encode(read_first(text).value)


def test_pieces_of_a_real_document_are_a_value_or_an_error() -> None:
    source = (
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {x: 'y'}}\n"
        b"data:\n  a: |\n    text\n  b: >-\n    folded\n    text\n  <<: *l\n  \"q\\u0041\": '0x1'\n"
    )
    chance = random.Random(16)
    for _ in range(2000):
        text = bytearray(source)
        for _ in range(chance.randint(1, 6)):
            text[chance.randrange(len(text))] = chance.randrange(256)
        with contextlib.suppress(YamlError):
            msgspec.json.encode(read_first(bytes(text)).value)


def test_a_long_scalar_is_handed_to_the_parser_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser does not let other threads run while it has text to look at."""
    sizes: list[int] = []
    hand_over = parser._Source.read

    def counted(source: parser._Source, size: int) -> str:
        sizes.append(len(text := hand_over(source, size)))
        return text

    monkeypatch.setattr(parser._Source, "read", counted)
    assert read("a: |\n" + "  text\n" * 150_000) == {"a": "text\n" * 150_000}
    assert max(sizes) <= 64 * 1024
    assert sum(sizes) > MEGABYTE


def test_what_was_read_is_freed_without_the_collector() -> None:
    """It may be 200,000 values, and the collector stops everything while it looks for them."""
    for text in ("a: [1]", "a: [", "[" * (MAX_DEPTH + 1), "a: &x [*x]"):
        gc.collect()
        gc.disable()
        try:
            with contextlib.suppress(YamlError):
                read_first(text)
            assert not [one for one in gc.get_objects() if isinstance(one, Reading)]
        finally:
            gc.enable()
