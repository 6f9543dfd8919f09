from __future__ import annotations

import json
from pathlib import Path

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Query, Request, Response
from kube_fairlead_apiserver.observability.audit import AuditLog
from kube_fairlead_apiserver.routing import read_request
from tests.smalldisk import fill, small_disk


async def body() -> bytes:
    return b"{}"


def test_a_line_says_who_did_what_and_what_admission_noted(tmp_path: Path) -> None:
    path = tmp_path / "log" / "audit.log"
    log = AuditLog(str(path), VirtualClock())
    request = Request("POST", "/api/v1/namespaces/work/configmaps", Query({}), {"user-agent": "kubectl"}, body)
    request.audit_id = "7"
    token = log.begin(request, read_request(request))
    jane = UserInfo("jane", groups=("dev",))
    log.identified(token, jane, UserInfo("bob"))
    request.audit_annotations["policy/color"] = "red"
    log.end(token, Response(201))
    log.close()
    (line,) = path.read_text().splitlines()
    event = json.loads(line)
    assert (event["auditID"], event["verb"], event["user"]["username"]) == ("7", "create", "jane")
    assert event["impersonatedUser"] == {"username": "bob"}
    assert event["objectRef"] == {"resource": "configmaps", "namespace": "work", "apiVersion": "v1"}
    assert event["responseStatus"]["code"] == 201
    assert event["annotations"] == {"policy/color": "red"}


def test_no_notes_no_annotations(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(str(path), VirtualClock())
    request = Request("GET", "/version", Query({}), {}, body)
    log.end(log.begin(request, read_request(request)), Response(200))
    log.close()
    assert "annotations" not in json.loads(path.read_text())


def test_a_line_cut_short_by_a_full_disk_spoils_no_other(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=1) as disk:
        path = disk / "audit.log"
        log = AuditLog(str(path), VirtualClock())

        def one_line() -> None:
            request = Request("GET", "/version", Query({}), {"user-agent": "x" * 1000}, body)
            log.end(log.begin(request, read_request(request)), Response(200))

        ballast = fill(disk, leave=4096)
        for _ in range(20):
            one_line()
        ballast.unlink()
        for _ in range(3):
            one_line()
        log.close()
        lines = path.read_bytes().splitlines()
    whole = [line for line in lines if line.endswith(b"}")]
    assert len(lines) - len(whole) == 1
    assert [json.loads(line)["verb"] for line in whole] == ["get"] * len(whole)
    assert lines[-3:] == whole[-3:]
