from __future__ import annotations

import pytest

from kube_fairlead_apiserver.cel import regex


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing closing ): `(`"),
        ("[a", "missing closing ]: `[a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("\\8", "invalid escape sequence: `\\8`"),
        ("x)", "unexpected ): `x)`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
    ],
)
def test_a_bad_pattern_is_refused_in_gos_words(pattern: str, message: str) -> None:
    with pytest.raises(regex.PatternError) as error:
        regex.compile_regex(pattern)
    assert str(error.value) == "error parsing regexp: " + message


def test_matching_is_unanchored_and_counts_characters_not_bytes() -> None:
    assert regex.compile_regex("b+").search("abbc")
    assert not regex.compile_regex("^b").search("abbc")
    assert regex.compile_regex("^.{4}$").search("héé€")
    assert regex.compile_regex(r"^\d+$").search("12")
    assert not regex.compile_regex(r"^\d+$").search("١٢")  # RE2 classes are ASCII, unlike Python's


def test_matches_and_groups_come_back_as_text() -> None:
    pattern = regex.compile_regex(r"(\w)-(x)?")
    assert pattern.groups == 2
    assert pattern.find("é a- b-x") == "a-"
    assert pattern.find("none") is None
    assert list(pattern.find_all("a- b-x")) == [("a-", "a", None), ("b-x", "b", "x")]


def test_a_lone_surrogate_is_matched_as_the_replacement_character() -> None:
    assert regex.compile_regex("�").search("a\ud800")
    with pytest.raises(regex.PatternError):
        regex.compile_regex("\ud800")


def test_a_pattern_that_does_not_compile_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    class Counted(regex.Regex):
        def __init__(self, pattern: str) -> None:
            tried.append(pattern)
            super().__init__(pattern)

    monkeypatch.setattr(regex, "Regex", Counted)
    for _ in range(3):
        with pytest.raises(regex.PatternError, match="missing closing"):
            regex.compile_regex("tried-once(")
    assert tried == ["tried-once("]
