from __future__ import annotations

import pytest

from kube_fairlead.manager.health import OK, HealthChecks, Verdict


def failing() -> Verdict:
    return Verdict(is_ok=False, note="no disk")


def broken() -> Verdict:
    raise OSError("gone")


def test_all_is_well() -> None:
    checks = HealthChecks()
    checks.add("disk", lambda: Verdict(is_ok=True, note="half full"))
    assert checks.report("healthz").text == "ok"
    report = checks.report("healthz", verbose=True)
    assert report.status == 200
    assert report.text == "[+]ping ok\n[+]disk ok: half full\nhealthz check passed\n"


@pytest.mark.parametrize(
    ("check", "line"), [(failing, "[-]disk failed: no disk"), (broken, "[-]disk failed: OSError: gone")]
)
def test_something_is_not(check: object, line: str) -> None:
    checks = HealthChecks()
    checks.add("disk", check)  # type: ignore[arg-type]  # a table of checks
    report = checks.report("readyz")
    assert report.status == 500
    assert report.text == f"[+]ping ok\n{line}\nreadyz check failed\n"
    assert checks.report("readyz", exclude=["disk"]).status == 200


def test_one_check_alone() -> None:
    checks = HealthChecks()
    checks.add("disk", failing)
    checks.add("lease", lambda: Verdict(is_ok=True, note="follows a"))
    assert (checks.report_one("disk").status, checks.report_one("disk").text) == (500, "failed: no disk\n")
    assert (checks.report_one("lease").status, checks.report_one("lease").text) == (200, "ok: follows a")
    assert checks.report_one("ping").text == "ok"
    assert checks.report_one("other").status == 404


def test_checks_come_and_go() -> None:
    checks = HealthChecks()
    with checks.during("gc", lambda: OK):
        assert checks.names == ["ping", "gc"]
        with pytest.raises(ValueError, match="there is a health check gc already"):
            checks.add("gc", lambda: OK)
    assert checks.names == ["ping"]
    with checks.during("gc", lambda: OK):
        assert checks.names == ["ping", "gc"]
