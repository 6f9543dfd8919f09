"""Escapes in paths."""

from __future__ import annotations

import pytest

from kube_fairlead_apiserver.http.target import decode_path, is_well_formed


@pytest.mark.parametrize("target", [b"/a%2Fb", b"/a", b"/a%2e", b"/a?b=%zz"])
def test_well_formed(target: bytes) -> None:
    assert is_well_formed(target)


@pytest.mark.parametrize("target", [b"/%", b"/a%2", b"/a%zz?b", b"/%2%41"])
def test_malformed(target: bytes) -> None:
    assert not is_well_formed(target)


@pytest.mark.parametrize(
    ("path", "decoded"),
    [("/a%2Fb", "/a/b"), ("/%2525", "/%25"), ("/%C3%A4", "/ä"), ("/\xc3\xa4", "/ä"), ("/a+b", "/a+b")],
)
def test_escapes_are_resolved_once(path: str, decoded: str) -> None:
    assert decode_path(path) == decoded
