from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.admission.policies.type_check import type_warnings
from kube_fairlead_apiserver.registry.builtin import builtin_resources
from kube_fairlead_apiserver.registry.catalog import Catalog
from tests.unit.admission.policies.manifests import policy, rule

CATALOG = Catalog(builtin_resources())
PODS_AND_MORE = [rule(resources=["pods", "pods/status"]), rule(apiGroups=["apps"], resources=["deployments"])]


def warnings(*validations: dict[str, Any], **spec: Any) -> list[dict[str, str]]:
    constraints = {"resourceRules": PODS_AND_MORE}
    return type_warnings(policy("x", *validations, **{"matchConstraints": constraints, **spec}), CATALOG)


def test_what_is_right_for_every_kind_has_none() -> None:
    good = {"expression": "object.metadata.name != 'x'", "messageExpression": "object.metadata.name"}
    assert warnings(good) == []


def test_a_field_that_a_kind_does_not_have_is_told() -> None:
    (warning,) = warnings({"expression": "object.spec.replicas > 1"})
    assert warning["fieldRef"] == "spec.validations[0].expression"
    assert warning["warning"].startswith("/v1, Kind=Pod: ERROR: <input>:1:12: undefined field")
    assert "Deployment" not in warning["warning"]


def test_variables_and_parameters_have_types_too() -> None:
    found = warnings(
        {"expression": "variables.names.exists(n, n == params.spec.holder)"},
        variables=[{"name": "names", "expression": "['a']"}],
        paramKind={"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
    )
    assert len(found) == 1
    assert "undefined field 'holder'" in found[0]["warning"]
    assert warnings({"expression": "params.anything == 1"}, paramKind={"apiVersion": "x.example/v1", "kind": "Y"}) == []


def test_wildcards_say_nothing() -> None:
    anything = {"resourceRules": [rule(apiGroups=["*"], resources=["*"])]}
    assert warnings({"expression": "object.nope"}, matchConstraints=anything) == []
