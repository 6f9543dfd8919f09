from __future__ import annotations

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from kube_fairlead_apiserver.cel import escaping


def unescape(identifier: str) -> str | None:
    """The property name of an identifier, None if its escapes are wrong: what makes `escape` reversible."""
    plain = {escaped.strip("_"): char for char, escaped in escaping._ESCAPES.items()}
    pattern = re.compile(r"__([^_]+)__")
    whole = pattern.fullmatch(identifier)
    if whole and whole[1] in escaping.RESERVED:
        return whole[1]
    if any(match[1] not in plain for match in pattern.finditer(identifier)):
        return None
    return pattern.sub(lambda match: plain[match[1]], identifier)


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("replicas", "replicas"),
        ("my-field", "my__dash__field"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("_x_", "_x_"),
        ("9lives", None),
        ("with space", None),
        ("é", None),
        ("", None),
    ],
)
def test_names_are_spelled_as_kubernetes_spells_them(name: str, identifier: str | None) -> None:
    assert escaping.escape(name) == identifier
    if identifier is not None:
        assert unescape(identifier) == name


@pytest.mark.parametrize("identifier", ["__nope__", "a__if__"])
def test_wrong_escapes_stand_for_nothing(identifier: str) -> None:
    assert unescape(identifier) is None


@hypothesis.given(st.text(alphabet="ab_./-9", max_size=12))
def test_every_spelling_is_an_identifier_and_can_be_undone(name: str) -> None:
    identifier = escaping.escape(name)
    if identifier is not None:
        assert re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", identifier)
        # Three underscores in a row read back ambiguously in Kubernetes too; schemas do not use them.
        hypothesis.assume("___" not in name)
        assert unescape(identifier) == name
