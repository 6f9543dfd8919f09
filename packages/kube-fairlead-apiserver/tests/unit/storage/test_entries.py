"""Entries, and what of them is on the disk."""

from __future__ import annotations

import msgspec
import pytest

from kube_fairlead_apiserver.storage.entries import HEAD, Entry, Origin, split_value

VALUE = msgspec.json.encode({"metadata": {"name": "a"}, "spec": {"metadata": {"apiVersion": "v9"}}})


@pytest.mark.parametrize("version", ["", "v1", "v2beta1"])
def test_the_version_is_kept_with_the_value(version: str) -> None:
    origin = Origin(version) if version else None
    entry = Entry("a", 1, VALUE[len(HEAD) :], {}, {}, origin)
    assert split_value(entry.durable) == (version, entry.tail)
    assert entry.value == VALUE
    whole = {"apiVersion": version} if version else {}
    assert msgspec.json.decode(entry.durable) == whole | msgspec.json.decode(VALUE)


def test_an_entry_at_another_revision_or_in_other_words_keeps_the_rest() -> None:
    origin = Origin("v1")
    entry = Entry("ns/a", 1, VALUE[len(HEAD) :], {"l": "1"}, {"f": "2"}, origin)
    later, other = entry.at(7), entry.showing(b'"name":"b"}}')
    assert (later.key, later.revision, later.tail) == ("ns/a", 7, entry.tail)
    assert (other.key, other.revision, other.tail) == ("ns/a", 1, b'"name":"b"}}')
    for made in (later, other):
        assert (made.labels, made.fields, made.origin) == ({"l": "1"}, {"f": "2"}, origin)
