from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError
from kube_fairlead.api.gvk import GroupKind, GroupResource

PODS = GroupResource("", "pods")
DEPLOYMENTS = GroupResource("apps", "deployments")


@pytest.mark.parametrize(
    ("error", "code", "reason", "message"),
    [
        (errors.not_found(PODS, "a"), 404, "NotFound", 'pods "a" not found'),
        (errors.not_found(DEPLOYMENTS, "a"), 404, "NotFound", 'deployments.apps "a" not found'),
        (errors.already_exists(PODS, "a"), 409, "AlreadyExists", 'pods "a" already exists'),
        (
            errors.generate_name_conflict(PODS, "a"),
            409,
            "AlreadyExists",
            'pods "a" already exists, the server was not able to generate a unique name for the object',
        ),
        (errors.conflict(PODS, "a", "old"), 409, "Conflict", 'Operation cannot be fulfilled on pods "a": old'),
        (errors.forbidden(PODS, "a", "no"), 403, "Forbidden", 'pods "a" is forbidden: no'),
        (errors.forbidden(PODS, "", "no"), 403, "Forbidden", "pods is forbidden: no"),
        (errors.forbidden(GroupResource("", ""), "", "no"), 403, "Forbidden", "forbidden: no"),
        (errors.Unauthorized(), 401, "Unauthorized", "not authorized"),
        (errors.Expired("too old"), 410, "Expired", "too old"),
        (errors.BadRequest("what"), 400, "BadRequest", "what"),
        (
            errors.method_not_supported(DEPLOYMENTS, "patch"),
            405,
            "MethodNotAllowed",
            'patch is not supported on resources of kind "deployments.apps"',
        ),
        (
            errors.not_acceptable(["a/b", "c/d"]),
            406,
            "NotAcceptable",
            "only the following media types are accepted: a/b, c/d",
        ),
        (
            errors.unsupported_media_type(["a/b"]),
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: a/b",
        ),
        (
            errors.request_entity_too_large("limit is 3145728"),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
        ),
        (errors.too_many_requests("later", 10), 429, "TooManyRequests", "later"),
        (errors.internal_error("boom"), 500, "InternalError", "Internal error occurred: boom"),
        (
            errors.server_timeout(PODS, "create", 1),
            500,
            "ServerTimeout",
            "The create operation against pods could not be completed at this time, please try again.",
        ),
        (errors.timeout("slow", 1), 504, "Timeout", "Timeout: slow"),
        (errors.ServiceUnavailable("down"), 503, "ServiceUnavailable", "down"),
        (errors.apply_conflict([{"reason": "FieldManagerConflict"}], "two"), 409, "Conflict", "two"),
    ],
)
def test_messages_and_the_way_over_the_wire(error: errors.ApiError, code: int, reason: str, message: str) -> None:
    assert (error.code, error.reason, str(error)) == (code, reason, message)
    status = error.to_status()
    assert list(status)[:5] == ["kind", "apiVersion", "metadata", "status", "message"]
    again = errors.from_status(status)
    assert type(again) is type(error)
    assert again.to_status() == status


def test_invalid_lists_every_field() -> None:
    problems = [FieldError.required("spec.a"), FieldError.invalid("spec.b", 1, "bad")]
    error = errors.invalid(GroupKind("apps", "Deployment"), "web", problems)
    assert str(error) == ('Deployment.apps "web" is invalid: [spec.a: Required value, spec.b: Invalid value: 1: bad]')
    assert error.details == {
        "name": "web",
        "group": "apps",
        "kind": "Deployment",
        "causes": [problem.to_cause() for problem in problems],
    }
    assert str(errors.invalid(GroupKind("", "Pod"), "", [])) == 'Pod "" is invalid'


def test_details_and_helpers() -> None:
    error = errors.too_many_requests("later", 10, [{"reason": "DisruptionBudget", "message": "no"}])
    assert error.retry_after_seconds == 10
    assert error.has_cause("DisruptionBudget")
    assert not error.has_cause("Other")
    assert errors.BadRequest("x").retry_after_seconds == 0
    assert errors.not_found(PODS, "a").details == {"name": "a", "kind": "pods"}


@pytest.mark.parametrize(
    ("status", "cls", "code"),
    [
        ({"reason": "Gone", "code": 410}, errors.Expired, 410),
        ({"code": 409}, errors.Conflict, 409),
        ({"code": 500}, errors.InternalError, 500),
        ({"reason": "AlreadyExists"}, errors.AlreadyExists, 409),
        ({"reason": "NewReason", "code": 404}, errors.NotFound, 404),
        ({"reason": "NewReason", "code": 418}, errors.ApiError, 418),
        ({}, errors.ApiError, 500),
    ],
)
def test_a_status_finds_its_class(status: dict[str, Any], cls: type[errors.ApiError], code: int) -> None:
    error = errors.from_status(status)
    assert type(error) is cls
    assert error.code == code
    assert error.reason == status.get("reason", "")


@pytest.mark.parametrize(
    ("code", "verb", "cls", "message"),
    [
        (409, "POST", errors.AlreadyExists, "the server reported a conflict (post pods a)"),
        (409, "PUT", errors.Conflict, "the server reported a conflict (put pods a)"),
        (404, "GET", errors.NotFound, "the server could not find the requested resource (get pods a)"),
        (403, "GET", errors.Forbidden, "<html> (get pods a)"),
        (
            502,
            "GET",
            errors.InternalError,
            'an error on the server ("<html>") has prevented the request from succeeding (get pods a)',
        ),
        (
            418,
            "GET",
            errors.ApiError,
            "the server responded with the status code 418 but did not return more information (get pods a)",
        ),
    ],
)
def test_an_answer_that_is_no_status(code: int, verb: str, cls: type[errors.ApiError], message: str) -> None:
    error = errors.from_response(code, verb=verb, resource=PODS, name="a", body="<html>", retry_after_seconds=3)
    assert type(error) is cls
    assert (error.code, str(error), error.retry_after_seconds) == (code, message, 3)
    assert error.has_cause("UnexpectedServerResponse")
