from __future__ import annotations

import pytest

from kube_fairlead_apiserver.admission.expressions.compilation import Expression, compile_expression
from kube_fairlead_apiserver.admission.expressions.conditions import ConditionsFailed, conditions_hold
from kube_fairlead_apiserver.admission.expressions.environments import environment
from kube_fairlead_apiserver.admission.expressions.evaluation import Activation
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.cel import types
from tests.unit.admission.plane import Plane, config_map


def compiled(*sources: str) -> list[Expression]:
    variables = environment(params=False, authorizer=True)
    return [compile_expression(variables, source, types.BOOL) for source in sources]


def activation(plane: Plane) -> Activation:
    resource = plane.resource("ConfigMap")
    operation = Operation("CREATE", resource, UserInfo("jane"), "work", "a", config_map("a", x="y"), None)
    return Activation(operation, resource, authorize=lambda _: None)


BROKEN = "object.data.missing == 'x'"


@pytest.mark.parametrize(
    ("sources", "holds"),
    [
        ([], True),
        (["true", "object.data.x == 'y'"], True),
        (["true", "false"], False),
        ([BROKEN, "false"], False),  # one that is false settles it
    ],
)
@pytest.mark.parametrize("fail_open", [True, False])
async def test_all_must_hold(plane: Plane, sources: list[str], holds: bool, fail_open: bool) -> None:
    assert conditions_hold(compiled(*sources), activation(plane), fail_open=fail_open) is holds


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        ([BROKEN, "true"], f"expression '{BROKEN}' resulted in error: no such key: missing"),
        (
            ["nope", BROKEN],
            (
                "[compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' "
                f"(in container '')\n | nope\n | ^, expression '{BROKEN}' resulted in error: no such key: missing]"
            ),
        ),
        ([BROKEN, BROKEN], f"expression '{BROKEN}' resulted in error: no such key: missing"),
    ],
)
async def test_an_error_is_a_refusal_or_a_no(plane: Plane, sources: list[str], why: str) -> None:
    assert conditions_hold(compiled(*sources), activation(plane), fail_open=True) is False
    with pytest.raises(ConditionsFailed) as raised:
        conditions_hold(compiled(*sources), activation(plane), fail_open=False)
    assert str(raised.value) == why


def test_an_expression_may_ask_what_a_service_account_may_do(plane: Plane) -> None:
    resource = plane.resource("ConfigMap")
    operation = Operation("CREATE", resource, UserInfo("jane"), "work", "a", config_map("a", x="y"), None)
    asked: list[Attributes] = []
    expressions = compiled(
        "authorizer.serviceAccount('prod', 'robot').path('/healthz').check('get').allowed()",
        "authorizer.group('').resource('pods').namespace('prod').check('list').allowed()",
    )
    seen = Activation(operation, resource, authorize=asked.append)
    assert [seen.evaluate(expression) for expression in expressions] == [True, True]
    groups = ("system:serviceaccounts", "system:serviceaccounts:prod", "system:authenticated")
    robot = UserInfo("system:serviceaccount:prod:robot", groups=groups)
    assert asked == [
        Attributes(robot, "get", "/healthz", is_resource=False),
        Attributes(UserInfo("jane"), "list", "", "pods", "", "*", namespace="prod"),
    ]
