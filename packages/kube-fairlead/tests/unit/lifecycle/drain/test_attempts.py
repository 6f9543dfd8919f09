from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api.errors import ApiError, from_status
from kube_fairlead.lifecycle.drain.attempts import Cause, cause_of, explain


def refused(code: int, *causes: dict[str, str], message: str = "no") -> ApiError:
    status: dict[str, Any] = {"kind": "Status", "code": code, "message": message, "details": {"causes": list(causes)}}
    return from_status(status)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionError(), Cause.TROUBLE),
        *[(refused(code), Cause.TROUBLE) for code in (401, 404, 408, 409, 429, 500, 503)],
        *[(refused(code), Cause.DENIED) for code in (400, 403, 405, 422, 499)],
        (refused(429, {"reason": "DisruptionBudget"}), Cause.BUDGET),
        (refused(403, {"reason": "NamespaceTerminating"}), Cause.NAMESPACE),
        (refused(409, {"reason": "NamespaceTerminating"}), Cause.TROUBLE),
    ],
)
def test_why_a_pod_was_not_evicted(error: Exception, expected: Cause) -> None:
    assert cause_of(error) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refused(429, message="two\n lines"), "two lines"),
        (refused(429, {"reason": "DisruptionBudget", "message": "needs 2, has 2"}), "needs 2, has 2"),
        (refused(429, {"reason": "Another", "message": "m"}), "no"),
        (refused(429, {"reason": "DisruptionBudget"}), "no"),
        (ConnectionError(), "ConnectionError"),
    ],
)
def test_the_answer_in_one_line(error: Exception, expected: str) -> None:
    assert explain(error) == expected
