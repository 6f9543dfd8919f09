"""The judge: the API server's audit log says who wrote when, and who held the Lease at that moment.

Every write has a revision, and revisions of all objects are one sequence. So for each write to the ConfigMap there is
one Lease that was in force: the last one stored before it. Its holder must be the writer.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, order=True)
class Stored:
    """One successful write: of the Lease (then `holder` is whom it names), or of what the leader writes."""

    revision: int
    kind: str
    who: str
    holder: str = ""
    transitions: int = 0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the log says."""

    terms: int
    writes: int
    refused: int
    faults: tuple[str, ...]


def read(log: Path, namespace: str, lease: str) -> tuple[list[Stored], int]:
    """All successful writes in the order in which they were stored, and how many were refused."""
    stored, refused = [], 0
    for line in log.read_text(encoding="utf-8").splitlines():
        event: Json = json.loads(line)
        about = event.get("objectRef", {})
        if event["stage"] != "ResponseComplete" or about.get("namespace") != namespace:
            continue
        if event["verb"] not in {"create", "update", "patch"}:
            continue
        code = event.get("responseStatus", {}).get("code", 0)
        if about["resource"] == "configmaps" and code == 403:
            refused += 1
        if not 200 <= code < 300 or event.get("responseObject") is None:
            continue
        answer: Json = event["responseObject"]
        revision = int(answer["metadata"]["resourceVersion"])
        if about["resource"] == "leases" and about["name"] == lease:
            spec = answer["spec"]
            stored.append(
                Stored(revision, "lease", "", spec.get("holderIdentity") or "", spec.get("leaseTransitions") or 0)
            )
        elif about["resource"] == "configmaps" and about["name"] == "written" and event["verb"] == "patch":
            stored.append(Stored(revision, "write", answer["data"]["by"]))
    return sorted(set(stored)), refused


def judge(stored: Iterable[Stored], refused: int) -> Verdict:
    """Hold every write against the Lease of its moment."""
    faults: list[str] = []
    holder, terms, writes = "", 0, 0
    for one in stored:
        if one.kind == "lease":
            terms += one.holder not in {"", holder}
            holder = one.holder
            continue
        writes += 1
        if one.who != holder:
            faults.append(f"revision {one.revision}: {one.who} wrote while {holder or 'nobody'} held the lease")
    return Verdict(terms, writes, refused, tuple(faults))
