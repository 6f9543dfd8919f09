from __future__ import annotations

import pytest

from kube_fairlead_apiserver import cel
from kube_fairlead_apiserver.cel import budget
from kube_fairlead_apiserver.cel.library import authorization

_USER = object()
_ENVIRONMENT = cel.Environment(
    {
        "authorizer": authorization.AUTHORIZER,
        "authorizer.requestResource": authorization.RESOURCE_CHECK,
    }
)


class _Asked:
    """An authorizer that notes what it is asked and allows reading."""

    def __init__(self) -> None:
        self.requests: list[authorization.AccessCheck] = []

    def __call__(self, request: authorization.AccessCheck) -> authorization.Decision:
        self.requests.append(request)
        if request.verb == "explode":
            return authorization.Decision(allowed=False, error="no answer")
        return authorization.Decision(allowed=request.verb == "get", reason="only reading")


def _evaluate(expression: str, asked: _Asked) -> object:
    authorizer = authorization.Authorizer(_USER, asked)
    own = authorization.ResourceCheck(authorizer, "apps", "deployments", namespace="prod", name="web")
    bindings = {"authorizer": authorizer, "authorizer.requestResource": own}
    return _ENVIRONMENT.compile(expression).evaluate(bindings)


def test_a_resource_check_asks_for_exactly_what_was_built() -> None:
    asked = _Asked()
    expression = (
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('prod').name('web')"
        ".fieldSelector('a=b').labelSelector('c').check('get').allowed()"
    )
    assert _evaluate(expression, asked) is True
    assert asked.requests == [
        authorization.AccessCheck(
            _USER,
            "get",
            group="apps",
            resource="deployments",
            subresource="scale",
            namespace="prod",
            name="web",
        )
    ]


def test_the_request_resource_is_a_variable_of_its_own() -> None:
    asked = _Asked()
    assert _evaluate("authorizer.requestResource.check('delete').allowed()", asked) is False
    assert (asked.requests[0].resource, asked.requests[0].name, asked.requests[0].verb) == (
        "deployments",
        "web",
        "delete",
    )


def test_a_service_account_asks_in_its_own_name() -> None:
    asked = _Asked()
    _evaluate("authorizer.serviceAccount('prod', 'robot').path('/healthz').check('get').allowed()", asked)
    assert asked.requests[0].user == authorization.ServiceAccount("prod", "robot")
    assert asked.requests[0].path == "/healthz"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("authorizer.path('/x').check('post').reason()", "only reading"),
        ("authorizer.path('/x').check('explode').errored()", True),
        ("authorizer.path('/x').check('explode').error()", "no answer"),
        ("authorizer.path('/x').check('get').errored()", False),
    ],
)
def test_a_decision_tells_why(expression: str, value: object) -> None:
    assert _evaluate(expression, _Asked()) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        (
            "authorizer.serviceAccount('Not a name', 'x').path('/').check('get').allowed()",
            "Invalid service account namespace",
        ),
        ("authorizer.serviceAccount('x', '!').path('/').check('get').allowed()", "Invalid service account name"),
    ],
)
def test_nonsense_is_refused_before_anyone_is_asked(expression: str, message: str) -> None:
    asked = _Asked()
    with pytest.raises(cel.EvaluationError, match=message):
        _evaluate(expression, asked)
    assert not asked.requests


def test_an_expression_can_afford_two_checks() -> None:
    check = "authorizer.path('/x').check('get').allowed()"
    assert _evaluate(f"{check} && {check}", _Asked()) is True
    with pytest.raises(cel.CostExceeded):
        _evaluate(f"{check} && {check} && {check}", _Asked())
    assert budget.PER_CALL_COST_MAX < 3 * 350_000
