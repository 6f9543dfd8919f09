"""Health checks that are added and removed, and their pages, worded as Kubernetes' own.

Upstream: k8s.io/apiserver@v0.36.4/pkg/server/healthz/healthz.go
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator

__all__ = ["OK", "Check", "HealthChecks", "Report", "Verdict"]


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says, and what there is to know about it."""

    is_ok: bool
    note: str = ""


OK = Verdict(is_ok=True)
Check = Callable[[], Verdict]


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The response to a health request."""

    status: int
    text: str


class HealthChecks:
    """Named checks. A controller's is there while the controller runs; a follower has none of them and is healthy."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {"ping": lambda: OK}

    @property
    def names(self) -> list[str]:
        """Which checks there are, in the order in which they came."""
        return list(self._checks)

    def add(self, name: str, check: Check) -> None:
        """Check this too.

        Raises:
            ValueError: there is a check of that name: two of the same thing would run.
        """
        if name in self._checks:
            raise ValueError(f"there is a health check {name} already")
        self._checks[name] = check

    def remove(self, name: str) -> None:
        """Do not check this any more."""
        self._checks.pop(name, None)

    @contextlib.contextmanager
    def during(self, name: str, check: Check) -> Iterator[None]:
        """Check this as long as the block lasts."""
        self.add(name, check)
        try:
            yield
        finally:
            self.remove(name)

    def report(self, page: str, *, verbose: bool = False, exclude: Collection[str] = ()) -> Report:
        """All checks: `ok`, or each with its verdict when one failed or the asker wants to know."""
        lines, good = [], True
        for name, check in list(self._checks.items()):
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
                continue
            verdict = _ask(check)
            good = good and verdict.is_ok
            lines.append(_line(name, verdict))
        if good and not verbose:
            return Report(200, "ok")
        outcome = "passed" if good else "failed"
        return Report(200 if good else 500, "\n".join([*lines, f"{page} check {outcome}", ""]))

    def report_one(self, name: str) -> Report:
        """One check alone."""
        check = self._checks.get(name)
        if check is None:
            return Report(404, f"there is no check {name}\n")
        verdict = _ask(check)
        note = f": {verdict.note}" if verdict.note else ""
        return Report(200, f"ok{note}") if verdict.is_ok else Report(500, f"failed{note}\n")


def _ask(check: Check) -> Verdict:
    try:
        return check()
    except Exception as failure:  # noqa: BLE001 - a check that cannot answer has failed, and the page must say so
        return Verdict(is_ok=False, note=f"{type(failure).__name__}: {failure}")


def _line(name: str, verdict: Verdict) -> str:
    note = f": {verdict.note}" if verdict.note else ""
    return f"[+]{name} ok{note}" if verdict.is_ok else f"[-]{name} failed{note}"
