from __future__ import annotations

import pytest

from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import errors, retry
from kube_fairlead.client.transport import Request, Response

RANDOM = SeededRandomness(0)


def request(method: str) -> Request:
    return Request(method=method, path="/x")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("error", "reads_only"),
    [
        (errors.ServerUnreachable("x"), False),
        (errors.ConnectionBroken("x"), True),
    ],
)
def test_errors_are_retried_where_that_is_safe(method: str, error: errors.ClientError, *, reads_only: bool) -> None:
    delay = retry.DEFAULT.after_error(request(method), error, 0, RANDOM)
    assert (delay is not None) == (method == "GET" or not reads_only)


@pytest.mark.parametrize(
    "error",
    [
        errors.CertificateRejected("x"),
        errors.RequestTimedOut("x"),
        errors.ConfigError("x"),
        errors.CredentialError("x"),
        errors.AnswerInvalid("x"),
    ],
)
def test_errors_that_time_does_not_heal_are_not_retried(error: errors.ClientError) -> None:
    assert retry.DEFAULT.after_error(request("GET"), error, 0, RANDOM) is None


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_invitation_is_followed_for_every_verb(method: str, status: int) -> None:
    response = Response(status, {"retry-after": "7"}, b"")
    delay = retry.DEFAULT.after_response(request(method), response, 0, RANDOM)
    assert delay is not None
    assert 7 < delay <= 7.1


@pytest.mark.parametrize(
    ("method", "status", "retried"),
    [
        ("GET", 429, True),
        ("GET", 503, True),
        ("GET", 504, True),
        ("GET", 500, False),
        ("GET", 404, False),
        ("GET", 409, False),
        ("GET", 200, False),
        ("POST", 429, False),  # an eviction that a disruption budget forbids looks like this
        ("POST", 503, False),
        ("DELETE", 504, False),
    ],
)
def test_answers_without_an_invitation(method: str, status: int, *, retried: bool) -> None:
    delay = retry.DEFAULT.after_response(request(method), Response(status, {}, b""), 0, RANDOM)
    assert (delay is not None) == retried


def test_the_limits() -> None:
    policy = retry.RetryPolicy(retries=2, invited_retries=3, invitation_cap_seconds=10)
    unreachable = errors.ServerUnreachable("x")
    assert policy.after_error(request("GET"), unreachable, 1, RANDOM) is not None
    assert policy.after_error(request("GET"), unreachable, 2, RANDOM) is None
    busy = Response(429, {"retry-after": "1"}, b"")
    assert policy.after_response(request("GET"), busy, 2, RANDOM) is not None
    assert policy.after_response(request("GET"), busy, 3, RANDOM) is None
    assert policy.after_response(request("GET"), Response(429, {"retry-after": "11"}, b""), 0, RANDOM) is None
    assert retry.NEVER.after_response(request("GET"), busy, 0, RANDOM) is None
    assert retry.NEVER.after_error(request("GET"), unreachable, 0, RANDOM) is None


def test_delays_grow_to_a_cap() -> None:
    ceilings = [retry.DEFAULT.backoff.ceiling(attempt) for attempt in range(7)]
    assert ceilings == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


@pytest.mark.parametrize(
    ("value", "expected"), [("5", 5.0), (" 5 ", 5.0), ("0", 0.0), ("-1", None), ("Wed, 21 Oct 2015", None), ("", None)]
)
def test_retry_after(value: str, expected: float | None) -> None:
    assert retry.retry_after_seconds({"retry-after": value}) == expected


def test_no_retry_after() -> None:
    assert retry.retry_after_seconds({}) is None
