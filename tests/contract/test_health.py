"""Health, version and metrics."""

from __future__ import annotations

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(api: RawApi, path: str) -> None:
    answer = await api.get(path)
    assert (answer.code, answer.text) == (200, "ok")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    told = await api.get(path, verbose="true")
    assert "[+]ping ok" in told.text.splitlines()
    assert told.text.rstrip().endswith(f"{path[1:]} check passed")


async def test_one_check(api: RawApi) -> None:
    assert (await api.get("/healthz/ping")).text == "ok"
    assert (await api.get("/healthz/nothing")).code == 404


@pytest.mark.parametrize("path", ["/version", "/version/"])
async def test_version(api: RawApi, path: str) -> None:
    version = (await api.get(path)).expect(200)
    assert version["major"] == "1"
    assert version["minor"].isdigit()
    assert version["gitVersion"].startswith(f"v1.{version['minor']}.")
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= set(version)


async def test_metrics(api: RawApi) -> None:
    answer = await api.get("/metrics")
    assert answer.code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "apiserver_request_total{" in answer.text


async def test_every_answer_can_be_found_in_the_audit_log(api: RawApi) -> None:
    answer = await api.get("/api/v1/namespaces")
    assert len(answer.headers["Audit-Id"]) == 36
    named = await api.with_headers(audit_id="my-own-id").get("/api/v1/namespaces")
    assert named.headers["Audit-Id"] == "my-own-id"


async def test_answers_are_not_to_be_cached(api: RawApi) -> None:
    assert (await api.get("/api/v1/namespaces")).headers["Cache-Control"] == "no-cache, private"
