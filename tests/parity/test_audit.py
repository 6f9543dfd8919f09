"""What the audit log says of a request: the same verb, object and user as kube-apiserver's, path by path."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead_lab.testing.control_plane import ADMIN
from kube_fairlead_lab.testing.wire import WireApi
from tests.parity import paths
from tests.parity.conftest import Planes
from tests.parity.test_paths import BODIES, decided

pytestmark = [pytest.mark.kube, pytest.mark.usefixtures("defined")]

Json = dict[str, Any]
REFERENCE = ("resource", "subresource", "namespace", "name", "apiGroup", "apiVersion")
USERS = (ADMIN, "bob")


def cases() -> Iterator[tuple[str, str]]:
    yield from itertools.islice(itertools.product(paths.METHODS, paths.tidy()), 0, None, 23)
    yield from itertools.islice(itertools.product(paths.METHODS, paths.untidy()), 0, None, 3)
    yield from (("GET", path) for path in paths.bare())


def send(api: WireApi, user: str) -> None:
    for number, (method, path) in enumerate(cases()):
        headers = {"Audit-ID": f"{user}-{number}"}
        if method in BODIES:
            headers["Content-Type"] = BODIES[method]
        api.send(method, f"{path}?dryRun=All&timeoutSeconds=1", b"{}" if method in BODIES else None, headers)


def events(log: Path, user: str) -> dict[str, Json]:
    found = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if f'"{user}-' in line)
    return {event["auditID"]: event for event in found if event["stage"] == "ResponseComplete"}


def complete(log: Path, user: str, last: str) -> dict[str, Json]:
    """Every event of a user's requests; the last one is written a moment after its answer is sent."""
    deadline = time.monotonic() + 60
    while last not in (found := events(log, user)):
        assert time.monotonic() < deadline, f"{log} says nothing of {last}"
        time.sleep(0.05)
    return found


def told(event: Json) -> Json:
    reference = event.get("objectRef") or {}
    seen = {field: reference.get(field, "") for field in REFERENCE}
    return {"verb": event["verb"], "user": event["user"]["username"], **seen}


@pytest.mark.parametrize("user", USERS)
def test_verb_object_and_user(planes: Planes, user: str) -> None:
    for plane in planes:
        with WireApi(plane.access(user)) as api:
            send(api, user)
    asked = list(cases())
    last = f"{user}-{len(asked) - 1}"
    logs = [plane.audit_log for plane in (planes.kube, planes.embedded)]
    kube, embedded = (complete(log, user, last) for log in logs if log is not None)
    different = []
    compared = 0
    for number, (method, path) in enumerate(asked):
        one, other = kube.get(f"{user}-{number}"), embedded.get(f"{user}-{number}")
        if one is None and other is None:
            continue  # a path that cannot be read is refused before anything is known of the request
        if one is None or other is None:
            different.append(f"{method} {path}: kube {one and told(one)}, embedded {other and told(other)}")
        elif decided(method, path) is None and told(one) != told(other):
            different.append(f"{method} {path}: kube {told(one)}, embedded {told(other)}")
        compared += 1
    assert not different, f"{len(different)} of {compared}:\n" + "\n".join(different[:15])
    assert compared > 300
