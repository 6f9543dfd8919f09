"""The judge itself: it must find what it is there to find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.interop.election.judging import Stored, Verdict, judge, read


def lease(revision: int, holder: str) -> Stored:
    return Stored(revision, "lease", "", holder)


def write(revision: int, who: str) -> Stored:
    return Stored(revision, "write", who)


def test_writes_of_the_holder_are_fine() -> None:
    stored = [lease(1, "a"), write(2, "a"), lease(3, "a"), write(4, "a"), lease(5, ""), lease(6, "b"), write(7, "b")]
    assert judge(stored, 3) == Verdict(terms=2, writes=3, refused=3, faults=())


def test_a_second_writer_in_a_term_is_a_fault() -> None:
    faults = judge([lease(1, "a"), lease(2, "b"), write(3, "a"), write(4, "b")], 0).faults
    assert faults == ("revision 3: a wrote while b held the lease",)


def test_a_write_outside_of_any_term_is_a_fault() -> None:
    faults = judge([lease(1, "a"), lease(2, ""), write(3, "a")], 0).faults
    assert faults == ("revision 3: a wrote while nobody held the lease",)


def test_the_log_is_read_in_the_order_of_revisions(tmp_path: Path) -> None:
    def event(resource: str, name: str, verb: str, code: int, answer: dict[str, Any] | None) -> str:
        about = {"namespace": "ns", "resource": resource, "name": name}
        said = {"stage": "ResponseComplete", "verb": verb, "objectRef": about, "responseStatus": {"code": code}}
        return json.dumps(said | ({"responseObject": answer} if answer else {}))

    written = {"metadata": {"resourceVersion": "12"}, "data": {"by": "a"}}
    held = {"metadata": {"resourceVersion": "11"}, "spec": {"holderIdentity": "a", "leaseTransitions": 1}}
    log = tmp_path / "audit.log"
    lines = [
        event("configmaps", "written", "patch", 200, written),
        event("leases", "shared", "update", 200, held),
        event("leases", "shared", "update", 409, None),
        event("configmaps", "written", "patch", 403, None),
        event("configmaps", "other", "patch", 200, written),
    ]
    log.write_text("\n".join(lines), encoding="utf-8")
    assert read(log, "ns", "shared") == ([Stored(11, "lease", "", "a", 1), Stored(12, "write", "a")], 1)
