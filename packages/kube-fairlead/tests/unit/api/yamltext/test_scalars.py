"""What kube-apiserver 1.36 makes of scalars; tests/contract/test_yaml.py asks it again, with thousands of them."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api.yamltext import scalars
from kube_fairlead.api.yamltext.parser import YamlError, read

_TAGS = ("!!bool", "!!float", "!!int", "!!null", "!!timestamp")


def same(one: Any, other: Any) -> bool:
    return one.__class__ is other.__class__ and one == other


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, True) for word in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")),
        *((word, False) for word in ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, word) for word in ("yEs", "nULL", "tRue", "<<", "=", "inf", "NaN", "infinity", "+", ".")),
        # No base 60, no dates.
        *((word, word) for word in ("1:1", "190:20:30", "-1:1", "1:1.5", "2026-01-01", "2026-01-01T00:00:00Z")),
        ("0777", 511),
        ("0o17", 15),
        ("08", 8),
        ("0x1F", 31),
        ("-0x1f", -31),
        ("0b101", 5),
        ("-0b11", -3),
        ("0b+1", 1),
        ("0b-1", -1),
        ("0xg", "0xg"),
        ("0o8", "0o8"),
        ("0b2", "0b2"),
        ("0b", "0b"),
        ("1_000", 1000),
        ("1__0_", 10),
        ("-_1", -1),
        ("_1", "_1"),
        (".7_3", 0.73),
        ("._7", "._7"),
        ("1e3", 1000),
        ("1.0", 1),
        ("-0.0", 0),
        ("5.", 5),
        (".5", 0.5),
        ("1.5e-3", 0.0015),
        ("1e400", "1e400"),
        ("1e-400", 0),
        ("1.2.3", "1.2.3"),
        ("9223372036854775807", 2**63 - 1),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 18446744073709552000),
        ("-9223372036854775809", -9223372036854776000),
        ("1e21", 1e21),
    ],
)
def test_plain_text(text: str, value: Any) -> None:
    assert same(read(f"a: {text}")["a"], value)
    assert same(read(f"a: '{text}'")["a"], text)
    assert same(read(f'a: !!str "{text}"')["a"], text)


@pytest.mark.parametrize("tag", _TAGS)
@pytest.mark.parametrize("text", ["x", "1:1", "''x", "-"])
def test_a_tag_that_the_text_is_not_of(tag: str, text: str) -> None:
    with pytest.raises(YamlError, match=r"line 1, column 4: cannot decode !!str `.*` as a !!"):
        read(f"a: {tag} {text!r}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!int '0x10'", 16),
        ("!!float 3", 3),
        ("!!float 1.5", 1.5),
        ("!!bool 'yes'", True),
        ("!!null ''", None),
        ("!!timestamp 2026-1-31", "2026-1-31"),
        ("!!timestamp 2026-01-31 1:2:3.5", "2026-01-31 1:2:3.5"),
        ("!!binary aGk=", "hi"),
        ("!!binary 1e+3", "\ufffd\ufffd\ufffd"),
        ("!unknown 5", "5"),
        ("! 5", "5"),
        ("!!set {a: 1}", {"a": 1}),
    ],
)
def test_a_tag(text: str, value: Any) -> None:
    assert same(read(f"a: {text}")["a"], value)


@pytest.mark.parametrize("text", ["!!timestamp 2026-02-30", "!!timestamp 2026-1-1 24:0:0", "!!binary '!'", "!!int 1.5"])
def test_a_tag_that_is_wrong(text: str) -> None:
    with pytest.raises(YamlError, match=r"cannot decode|invalid base64"):
        read(f"a: {text}")


@pytest.mark.parametrize("text", [".nan", ".inf", "-.INF"])
def test_what_json_has_no_number_for(text: str) -> None:
    with pytest.raises(YamlError, match="unsupported value"):
        read(f"a: {text}")
    assert read(f"{text}: 1") == {scalars.key_text(scalars.resolve(None, text, plain=True)): 1}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("1", "1"),
        ("0x10", "16"),
        ("yes", "true"),
        ("off", "false"),
        ("1.5", "1.5"),
        ("0.1", "0.1"),
        ("16777217.0", "1.6777216e+07"),
        ("1e39", ".inf"),
        (".nan", ".nan"),
        ("1:1", "1:1"),
    ],
)
def test_a_key_becomes_text(key: str, text: str) -> None:
    assert read(f"{key}: 1") == {text: 1}


@pytest.mark.parametrize("key", ["~", "null", "18446744073709551615", "[a]", "{a: 1}"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(YamlError, match="map key"):
        read(f"? {key}\n: 1")
