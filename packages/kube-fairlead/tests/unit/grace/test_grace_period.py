from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kube_fairlead import grace
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import ConfigMap
from kube_fairlead.api.reserved import (
    ANNOTATION_GRACE_DEADLINE,
    ANNOTATION_GRACE_REQUEST_TIME,
    ANNOTATION_GRACE_REQUESTED,
)
from kube_fairlead.api.time import format_time

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
NOT_DELETING: dict[str, Any] = {}


def at(seconds: float) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


def deleting(stamp: float, seconds: int | None, **annotations: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"deletionTimestamp": format_time(at(stamp))}
    if seconds is not None:
        metadata["deletionGracePeriodSeconds"] = seconds
    names = {
        "deadline": ANNOTATION_GRACE_DEADLINE,
        "requested": ANNOTATION_GRACE_REQUESTED,
        "at": ANNOTATION_GRACE_REQUEST_TIME,
    }
    if annotations:
        metadata["annotations"] = {names[key]: value for key, value in annotations.items()}
    return metadata


NOTES = {ANNOTATION_GRACE_DEADLINE: format_time(at(20)), ANNOTATION_GRACE_REQUESTED: "30"}
NOTED = {"deadline": format_time(at(20)), "requested": "30"}
FORCED = {"deadline": format_time(at(-10)), "requested": "0"}


LEFT = {"deadline": format_time(at(-900)), "requested": "0", "at": format_time(at(-900))}
LEFT_LONG = {"deadline": format_time(at(900)), "requested": "930", "at": format_time(at(-30))}
MOMENTS_AGO = {"deadline": format_time(at(-13)), "requested": "0", "at": format_time(at(-13))}
HURRIED = {"deadline": format_time(at(-5)), "requested": "0", "at": format_time(at(-1))}


@pytest.mark.parametrize(
    ("what", "metadata", "native", "requested", "deadline", "remaining", "forced"),
    [
        ("not deleted", NOT_DELETING, True, None, None, None, False),
        ("not deleted", NOT_DELETING, False, None, None, None, False),
        ("refused after it was noted", {"annotations": NOTES}, False, None, None, None, False),
        # Ours, and it shows by itself.
        ("plain", deleting(-10, None), True, None, None, None, False),
        ("plain", deleting(-10, None), False, None, None, None, False),
        ("graceful", deleting(20, 30), True, 30, at(20), 20, False),
        ("graceful", deleting(20, 30), False, 30, at(20), 20, False),
        ("graceful and over", deleting(-5, 30), True, 30, at(-5), 0, False),
        ("graceful, whatever a note says", deleting(20, 30, **FORCED), False, 30, at(20), 20, False),
        # A bare 0 means what the server means by it.
        ("forced on ours", deleting(-10, 0), True, 0, at(-10), 0, True),
        ("forced on ours, whatever a note says", deleting(-10, 0, **NOTED), True, 0, at(-10), 0, True),
        ("anything on stock", deleting(-10, 0), False, None, None, None, None),
        # Stock with notes.
        ("graceful", deleting(-10, 0, **NOTED), False, 30, at(20), 20, False),
        ("forced", deleting(-10, 0, **FORCED), False, 0, at(-10), 0, True),
        ("forced later", deleting(-10, 0, **HURRIED), False, 0, at(-5), 0, True),
        # A note that an earlier request left behind says nothing about this deletion.
        ("left behind, forced", deleting(-10, 0, **LEFT), False, None, None, None, None),
        ("left behind, without a time", deleting(-10, 0, **{**LEFT, "at": ""}), False, None, None, None, None),
        ("left behind, still running", deleting(-10, 0, **LEFT_LONG), False, None, None, None, None),
        ("left behind, forced moments ago", deleting(-10, 0, **MOMENTS_AGO), False, None, None, None, None),
        (
            "one second, already over",
            deleting(0, 0, deadline=format_time(at(0)), requested="1"),
            False,
            1,
            at(0),
            0,
            False,
        ),
        ("a deadline alone", deleting(-10, 0, deadline=format_time(at(20))), False, None, at(20), 20, False),
        (
            "a deadline alone that grants nothing",
            deleting(0, 0, deadline=format_time(at(0))),
            False,
            None,
            at(0),
            0,
            None,
        ),
        ("no time at all", deleting(-10, 0, deadline="soon", requested="30"), False, None, None, None, None),
        (
            "no number at all",
            deleting(-10, 0, deadline=format_time(at(20)), requested="-3"),
            False,
            None,
            at(20),
            20,
            False,
        ),
        ("seconds alone", deleting(-10, 0, requested="0"), False, None, None, None, None),
    ],
)
def test_what_an_object_says(
    what: str,
    metadata: dict[str, Any],
    native: bool,
    requested: int | None,
    deadline: dt.datetime | None,
    remaining: float | None,
    forced: bool | None,
) -> None:
    for item in (
        {"metadata": metadata},
        wire.from_dict(ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
    ):
        assert grace.requested(item, native=native) == requested, what
        assert grace.deadline(item, native=native) == deadline, what
        assert grace.remaining(item, NOW, native=native) == remaining, what
        assert grace.is_forced(item, native=native) is forced, what


@pytest.mark.parametrize(
    ("metadata", "native", "expected"),
    [
        (deleting(-10, None), True, at(50)),  # nothing was said: the default, from the request on
        (deleting(-10, 0), False, at(50)),  # not known: the same
        (deleting(20, 30), True, at(20)),
        (deleting(-10, 0), True, at(-10)),
        (deleting(-10, 0, **NOTED), False, at(20)),
        (NOT_DELETING, True, None),
    ],
)
def test_a_controllers_own_default(metadata: dict[str, Any], native: bool, expected: dt.datetime | None) -> None:
    assert grace.deadline({"metadata": metadata}, native=native, default_seconds=60) == expected


def test_when_it_was_asked_for() -> None:
    assert grace.read({"metadata": deleting(20, 30)}) == grace.Grace(at(-10), at(20), 30, forced=False)
    beyond = grace.read(
        {"metadata": {"deletionTimestamp": "9999-12-31T23:59:59Z", "deletionGracePeriodSeconds": 2**63 - 1}}
    )
    assert beyond is not None
    assert beyond.asked_at.year == 1


def test_an_object_without_metadata_is_not_being_deleted() -> None:
    assert grace.read({}) is None
