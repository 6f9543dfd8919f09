"""Where stock Kubernetes with the shim differs from our server, and that it does not differ elsewhere.

docs/graceful-deletion.md lists the same differences for users; the numbers are cited below.
"""

from __future__ import annotations

import pytest

from kube_fairlead.api.reserved import ANNOTATION_GRACE_DEADLINE, ANNOTATION_GRACE_REQUESTED
from kube_fairlead.api.time import parse_time
from kube_fairlead.grace.notes import ANNOTATIONS, FIELD_MANAGER
from tests.spec.kep5673.measuring import count
from tests.spec.kep5673.objects import FINALIZER, Deadline, near
from tests.spec.kep5673.shim.keeping import Shimmed


async def test_1_where_the_deadline_is(shimmed: Shimmed) -> None:
    """Stock Kubernetes stores the moment of the request, and 0. The deadline is in the annotations."""
    await shimmed.kind.create("a", FINALIZER)
    await shimmed.kind.delete("a", 300)
    obj = await shimmed.kind.get("a")
    annotations = obj["metadata"].get("annotations", {})
    if shimmed.native:
        assert Deadline.of(obj) == Deadline(near(300), 300)
        assert annotations == {}
    else:
        assert Deadline.of(obj) == Deadline(near(), 0)
        assert parse_time(annotations[ANNOTATION_GRACE_DEADLINE]) == near(300)
        assert annotations[ANNOTATION_GRACE_REQUESTED] == "300"


async def test_2_whether_a_plain_delete_was_forced_cannot_be_known(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)
    await shimmed.kind.delete("a")
    assert (await shimmed.known("a")).forced is (False if shimmed.native else None)


async def test_3_a_version_precondition_is_kept_and_the_grace_lost(shimmed: Shimmed) -> None:
    made = await shimmed.kind.create("a", FINALIZER)
    version = made["metadata"]["resourceVersion"]
    answer = await shimmed.kind.delete("a", 300, preconditions={"resourceVersion": version})
    answer.expect(200)
    known = await shimmed.known("a")
    if shimmed.native:
        assert known.requested == 300
    else:
        assert (known.requested, known.forced) == (None, None)
        assert "the grace period is not recorded: the delete has a resourceVersion" in answer.headers["Warning"]
    (await shimmed.kind.delete("a", 300, preconditions={"resourceVersion": version})).expect(409)


async def test_4_a_note_is_a_write_of_its_own(shimmed: Shimmed) -> None:
    """A watcher sees the note before the deletion; admission runs again for it, and then writes nothing."""
    made = await shimmed.kind.create("a", FINALIZER)
    noted = 0.0 if shimmed.webhook is None else await shimmed.webhook.counted("recorded")
    async with shimmed.kind.api.watch(
        shimmed.kind.path(), resourceVersion=made["metadata"]["resourceVersion"]
    ) as watch:
        await shimmed.kind.delete("a", 300)
        first = (await watch.next())["object"]
        assert ("deletionTimestamp" in first["metadata"]) is shimmed.native
        if shimmed.webhook is None:
            return
        second = (await watch.next())["object"]
    assert "deletionTimestamp" in second["metadata"]
    assert second["metadata"]["annotations"] == first["metadata"]["annotations"]
    assert await shimmed.webhook.counted("recorded") == noted + 1
    assert FIELD_MANAGER in {entry["manager"] for entry in second["metadata"]["managedFields"]}


async def test_5_a_grace_that_is_no_number_is_refused_otherwise(shimmed: Shimmed) -> None:
    made = await shimmed.kind.create("a", FINALIZER)
    status = (await shimmed.kind.delete("a", "soon")).expect(422 if shimmed.native else 400)
    assert status["status"] == "Failure"
    assert await shimmed.kind.get("a") == made


async def test_7_where_it_is_counted(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)
    counter = "apiserver_crd_graceful_deletion_total"
    before = await count(shimmed.kind.api, counter, group=shimmed.kind.group)
    noted = 0.0 if shimmed.webhook is None else await shimmed.webhook.counted("recorded")
    await shimmed.kind.delete("a", 300)
    assert await count(shimmed.kind.api, counter, group=shimmed.kind.group) - before == (1 if shimmed.native else 0)
    if shimmed.webhook is not None:
        assert await shimmed.webhook.counted("recorded") == noted + 1


@pytest.mark.parametrize("grace", [None, 300])
async def test_8_a_note_that_a_refused_delete_left_behind_is_put_right(shimmed: Shimmed, grace: int | None) -> None:
    """Our server writes nothing for a delete that is refused, so there is nothing to put right."""
    stale = {ANNOTATION_GRACE_DEADLINE: "2020-01-01T00:00:00Z", ANNOTATION_GRACE_REQUESTED: "30"}
    await shimmed.kind.create("a", FINALIZER, annotations=stale)
    (await shimmed.kind.delete("a", grace)).expect(200)
    known = await shimmed.known("a")
    assert (known.requested, known.deadline) == ((None, None) if grace is None else (300, near(300)))
    left = (await shimmed.kind.get("a"))["metadata"].get("annotations", {})
    assert (left == stale) is shimmed.native


LESS_TIME = "the grace period has no effect: the object is being deleted already, with less time left"
NO_FINALIZER = "the grace period has no effect: the object has no finalizer"


async def test_8_a_note_that_cannot_be_erased_is_not_taken_for_this_request(shimmed: Shimmed) -> None:
    """A forced delete was rejected after its note; the next one insists on a version, so the note has to stay."""
    stale = {ANNOTATION_GRACE_DEADLINE: "2020-01-01T00:00:00Z", ANNOTATION_GRACE_REQUESTED: "0"}
    made = await shimmed.kind.create("a", FINALIZER, annotations=stale)
    (await shimmed.kind.delete("a", preconditions={"resourceVersion": made["metadata"]["resourceVersion"]})).expect(200)
    known = await shimmed.known("a")
    assert (known.forced, known.deadline, known.requested) == (False if shimmed.native else None, None, None)
    assert (await shimmed.kind.get("a"))["metadata"]["annotations"] == stale
    (await shimmed.kind.delete("a")).expect(200)
    left = (await shimmed.kind.get("a"))["metadata"].get("annotations", {})
    assert (left == stale) is shimmed.native, "the next delete without a precondition erases it"


async def test_a_grace_period_without_effect_is_a_warning(shimmed: Shimmed) -> None:
    await shimmed.kind.create("free")
    assert NO_FINALIZER in (await shimmed.kind.delete("free", 300)).headers.get("Warning", "")
    await shimmed.kind.create("a", FINALIZER)
    warnings = [
        (await shimmed.kind.delete("a", seconds)).headers.get("Warning", "")
        for seconds in (300, 60, 100, None, 1, 30, 0, 0)
    ]
    assert [LESS_TIME in text for text in warnings] == [False, False, True, False, False, True, False, False]


async def test_only_its_own_annotations_change(shimmed: Shimmed) -> None:
    made = await shimmed.kind.create("a", FINALIZER, annotations={"example.com/mine": "kept"}, labels={"l": "kept"})
    await shimmed.kind.delete("a", 300)
    now = await shimmed.kind.get("a")
    mine = {name: text for name, text in now["metadata"]["annotations"].items() if name not in ANNOTATIONS}
    assert mine == {"example.com/mine": "kept"}
    assert now["metadata"]["labels"] == {"l": "kept"}
    assert now["spec"] == made["spec"]


async def test_requests_are_labelled_alike(shimmed: Shimmed) -> None:
    """The same labels on kube-apiserver, which is what proves test_metrics.py right."""
    labels = {
        "verb": "DELETE",
        "dry_run": "",
        "group": shimmed.kind.group,
        "version": "v1",
        "resource": shimmed.kind.plural,
        "subresource": "",
        "scope": "resource",
        "component": "apiserver",
    }
    collections = {**labels, "scope": "namespace"}
    created = {**labels, "verb": "POST"}
    api = shimmed.kind.api

    async def counted() -> list[float]:
        return [
            *[
                await count(api, "apiserver_request_total", **each, code=code)
                for each, code in ((labels, "200"), (labels, "404"), (collections, "200"), (created, "201"))
            ],
            *[await count(api, "apiserver_request_duration_seconds_count", **each) for each in (labels, collections)],
        ]

    before = await counted()
    await shimmed.kind.create("a", FINALIZER)
    await shimmed.kind.delete("a", 30)
    await shimmed.kind.delete("nobody", 30)
    (await api.delete(shimmed.kind.path(), {"gracePeriodSeconds": 5})).expect(200)
    after = await counted()
    more = [now - then for then, now in zip(before, after, strict=True)]
    # Collections are deleted by the namespace controller as well, in the namespaces of tests that have ended.
    assert [min(number, 1) if index in {2, 5} else number for index, number in enumerate(more)] == [1, 1, 1, 1, 2, 1]
