"""Events in both of their groups: what is asked of them, and what may still change."""

from __future__ import annotations

from typing import Any

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Refused, inside

EVENTS = "events.events.k8s.io/v1"
NOW = "2026-01-02T03:04:05.123456Z"


def report(namespace: str, **fields: Any) -> dict[str, Any]:
    """What events.k8s.io asks for."""
    about = {"kind": "Pod", "name": "p", "namespace": namespace}
    said = {"reportingController": "a/b", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal"}
    return {"metadata": {"name": "e"}, "eventTime": NOW, "regarding": about, **said, **fields}


async def test_an_event_is_kept_beside_what_it_is_about(refused: Refused) -> None:
    about = {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "elsewhere"}, "reason": "R"}
    expected = ['involvedObject.namespace: Invalid value: "elsewhere": does not match event.namespace']
    assert await refused("events.v1", about) == expected
    about = {"involvedObject": {"kind": "Node", "name": "n"}, "reason": "R"}
    assert await refused("events.v1", about) == [
        'involvedObject.namespace: Invalid value: "": does not match event.namespace'
    ]


async def test_an_event_with_a_time_says_who_saw_what(refused: Refused, namespace: str) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": namespace}
    for path, reporter, body in (
        ("events.v1", "reportingComponent", {"involvedObject": about}),
        (EVENTS, "reportingController", {"regarding": about, "type": "Normal"}),
    ):
        said = await refused(path, {**body, "eventTime": NOW})
        assert [line for line in said if "must consist" not in line] == [
            "action: Required value",
            "reason: Required value",
            f'{reporter}: Invalid value: "": name part must be non-empty',
            f"{reporter}: Required value",
            "reportingInstance: Required value",
        ]
    long = {"reportingInstance": "i" * 129, "action": "a" * 129, "reason": "r" * 129, "note": "n" * 1025}
    assert await refused(EVENTS, report(namespace, **long)) == [
        'action: Invalid value: "": can have at most 128 characters',
        'message: Invalid value: "": can have at most 1024 characters',
        'reason: Invalid value: "": can have at most 128 characters',
        'reportingInstance: Invalid value: "": can have at most 128 characters',
    ]


async def test_an_event_of_the_newer_group_has_nothing_of_the_older(refused: Refused, namespace: str) -> None:
    old = {"deprecatedCount": 1, "deprecatedSource": {"component": "c"}}
    times = {"deprecatedFirstTimestamp": NOW, "deprecatedLastTimestamp": NOW}
    assert await refused(EVENTS, report(namespace, eventTime=None, type="X", series={"count": 1}, **old, **times)) == [
        'count: Invalid value: "": needs to be unset',
        "eventTime: Required value",
        'firstTimestamp: Invalid value: "": needs to be unset',
        'lastTimestamp: Invalid value: "": needs to be unset',
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value",
        'source: Invalid value: "": needs to be unset',
        'type: Invalid value: "": has invalid value: X',
    ]


async def test_what_happened_stays(api: RawApi, refused: Refused, namespace: str) -> None:
    path = inside(namespace, EVENTS)
    (await api.post(path, report(namespace, note="n"))).expect(201)
    other = {"reason": "q", "note": "m", "regarding": {"name": "z"}, "reportingController": "c/d", "type": "Warning"}
    assert await refused(EVENTS, other, patch="e") == [
        "involvedObject: Invalid value: {}: field is immutable",
        'message: Invalid value: "m": field is immutable',
        'reason: Invalid value: "q": field is immutable',
        'reportingController: Invalid value: "c/d": field is immutable',
        'type: Invalid value: "Warning": field is immutable',
    ]
    series = {"count": 1, "lastObservedTime": NOW}
    assert await refused(EVENTS, {"series": series}, patch="e") == [
        'series.count: Invalid value: "": should be at least 2'
    ]
    (await api.patch(f"{path}/e", {"series": {**series, "count": 2}})).expect(200)
    # Through the older group anything goes, and what came that way may stay.
    older = f"{inside(namespace, 'events.v1')}/e"
    (await api.patch(older, {"message": "m", "count": 3, "series": {"count": 1}})).expect(200)
    seen = (await api.patch(f"{path}/e", {"metadata": {"labels": {"a": "b"}}})).expect(200)
    assert (seen["note"], seen["deprecatedCount"], seen["series"]["count"]) == ("m", 3, 1)


async def test_names_of_events(api: RawApi, refused: Refused, namespace: str) -> None:
    about = {"involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace}}
    body = {"metadata": {"name": "A_b"}, **about}
    (await api.post(inside(namespace, "events.v1"), body, dryRun="All")).expect(201)
    assert await refused("events.v1", {"metadata": {"name": "a%b"}, **about}) == [
        "metadata.name: Invalid value: \"a%b\": may not contain '%'"
    ]
    status = (await api.post(inside(namespace, EVENTS), report(namespace, metadata={"name": "A_b"}))).expect(422)
    assert status["message"].startswith('Event "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase')
