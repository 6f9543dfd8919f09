from __future__ import annotations

import json
from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead_apiserver.attributes import UserInfo
from tests.unit.admission.plane import Plane, config_map, node, pod
from tests.unit.admission.policies.manifests import binding, policy, rule

Json = dict[str, Any]

RED = "object.data.color != 'red'"


async def install(plane: Plane, *validations: Json, spec: Json | None = None, bound: Json | None = None) -> None:
    await plane.create(policy("colors", *validations, **(spec or {})))
    await plane.create(binding("colors-here", "colors", **(bound or {})))


async def refusal(plane: Plane, obj: Json, **options: Any) -> errors.ApiError:
    with pytest.raises(errors.ApiError) as raised:
        await plane.create(obj, **options)
    return raised.value


async def test_a_violation_is_refused_in_kubernetes_words(plane: Plane) -> None:
    await install(plane, {"expression": RED})
    await plane.create(config_map("a", color="blue"))
    error = await refusal(plane, config_map("b", color="red"))
    said = (
        "ValidatingAdmissionPolicy 'colors' with binding 'colors-here' denied request: "
        "failed expression: object.data.color != 'red'"
    )
    assert error.message == f'configmaps "b" is forbidden: {said}'
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.details == {"name": "b", "kind": "configmaps", "causes": [{"message": said}]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"message": " no red here "}, "no red here"),
        ({"messageExpression": "'not ' + object.data.color", "message": "unused"}, "not red"),
        ({"messageExpression": "string(object.data.missing)", "message": "fallback"}, "fallback"),
        ({"messageExpression": "'  '", "message": "fallback"}, "fallback"),
        ({"messageExpression": "'two\\nlines'", "message": "fallback"}, "fallback"),
        ({"messageExpression": "'x'.format([])", "message": "fallback"}, "x"),
        ({"messageExpression": "variables.told"}, "red it is"),
    ],
)
async def test_what_is_said_of_a_violation(plane: Plane, fields: Json, message: str) -> None:
    told = {"name": "told", "expression": "object.data.color + ' it is'"}
    await install(plane, {"expression": RED, **fields}, spec={"variables": [told]})
    error = await refusal(plane, config_map("b", color="red"))
    assert error.message.endswith(f"denied request: {message}")


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)])
async def test_a_reason_has_its_code(plane: Plane, reason: str, code: int) -> None:
    await install(plane, {"expression": RED, "reason": reason})
    error = await refusal(plane, config_map("b", color="red"))
    assert (error.reason, error.code) == (reason, code)


async def test_expressions_see_the_whole_request(plane: Plane) -> None:
    checks = [
        "request.operation == 'CREATE'",
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
        "request.namespace == 'work' && request.name == 'a'",
        "!has(request.subResource)",
        "request.userInfo.username == 'jane'",
        "request.userInfo.groups.exists(g, g == 'dev')",
        "request.userInfo.extra['authentication.kubernetes.io/pod-name'] == ['manager-0']",
        "request.dryRun == false",
        "oldObject == null",
        "object.metadata.name == 'a'",
        "namespaceObject.metadata.name == 'work'",
        "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'work'",
        "namespaceObject.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')",
        "namespaceObject.status.phase == 'Active'",
        "authorizer.requestResource.check('create').allowed()",
        "!authorizer.group('apps').resource('deployments').namespace('work').check('shout').allowed()",
        "authorizer.group('').resource('pods').check('shout').reason() == 'no'",
    ]
    plane.refused.add("shout")
    await install(plane, *({"expression": check} for check in checks))
    user = UserInfo(
        "jane", groups=("dev",), extra={"authentication.kubernetes.io/pod-name": ("manager-0",), "other": ("x",)}
    )
    await plane.create(config_map("a", color="blue"), user=user)
    asked = {(one.user.name, one.verb, one.group, one.resource, one.namespace) for one in plane.asked}
    assert ("jane", "create", "", "configmaps", "work") in asked
    assert ("jane", "shout", "apps", "deployments", "work") in asked


async def test_updates_and_deletes_compare_with_what_was_there(plane: Plane) -> None:
    await plane.create(config_map("a", color="blue"))
    await install(
        plane,
        {"expression": "request.operation != 'UPDATE' || object.data.color == oldObject.data.color"},
        {"expression": "request.operation != 'DELETE' || oldObject.data.color != 'blue'", "message": "keep it"},
    )
    with pytest.raises(errors.Invalid, match="failed expression"):
        await plane.change("ConfigMap", "a", lambda obj: obj["data"].update(color="red"), namespace="work")
    with pytest.raises(errors.Invalid, match="keep it"):
        await plane.delete("ConfigMap", "a", namespace="work")
    await plane.change("ConfigMap", "a", lambda obj: obj["data"].update(size="1"), namespace="work")


async def test_variables_are_lazy_and_build_on_each_other(plane: Plane) -> None:
    variables = [
        {"name": "color", "expression": "object.data.color"},
        {"name": "loud", "expression": "variables.color.upperAscii()"},
        {"name": "broken", "expression": "object.data.missing"},
    ]
    await install(
        plane,
        {"expression": "variables.color != 'grey' || variables.broken == 'x'"},
        {"expression": "variables.loud != 'RED'", "messageExpression": "variables.loud + ' is too loud'"},
        spec={"variables": variables},
    )
    await plane.create(config_map("a", color="blue"))
    assert (await refusal(plane, config_map("b", color="red"))).message.endswith("RED is too loud")
    error = await refusal(plane, config_map("b", color="grey"))
    assert 'composited variable "broken" fails to evaluate: no such key: missing' in error.message


@pytest.mark.parametrize(("failure_policy", "refused"), [("Fail", True), ("Ignore", False)])
@pytest.mark.parametrize(
    ("spec", "expression", "why"),
    [
        ({}, "object.data.missing == 'x'", "resulted in error: no such key: missing"),
        ({}, "object.data.color", "compilation error: must evaluate to bool but got dyn"),
        (
            {"matchConditions": [{"name": "c", "expression": "object.data.missing == 'x'"}]},
            RED,
            "expression 'object.data.missing == 'x'' resulted in error: no such key: missing",
        ),
        (
            {"paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Palette"}},
            "params == null",
            (
                "failed to configure policy: failed to find resource referenced by paramKind: "
                "'rules.example.com/v1, Kind=Palette'"
            ),
        ),
    ],
)
async def test_an_error_follows_the_failure_policy(
    plane: Plane,
    monkeypatch: pytest.MonkeyPatch,
    failure_policy: str,
    refused: bool,
    spec: Json,
    expression: str,
    why: str,
) -> None:
    # Validation would refuse some of these; a policy may be older than the rule that refuses it.
    plane.take_anything("ValidatingAdmissionPolicy", monkeypatch)
    await install(plane, {"expression": expression}, spec={**spec, "failurePolicy": failure_policy})
    if refused:
        assert why in (await refusal(plane, config_map("a", color="blue"))).message
    else:
        await plane.create(config_map("a", color="blue"))


async def test_match_conditions_narrow(plane: Plane) -> None:
    conditions = [{"name": "not-admin", "expression": "request.userInfo.username != 'admin'"}]
    await install(plane, {"expression": RED}, spec={"matchConditions": conditions})
    await plane.create(config_map("a", color="red"))
    await refusal(plane, config_map("b", color="red"), user=UserInfo("jane"))


@pytest.mark.parametrize("actions", [["Warn"], ["Audit"], ["Warn", "Audit"]])
async def test_a_binding_may_only_warn_or_note(plane: Plane, actions: list[str]) -> None:
    await install(plane, {"expression": RED, "message": "no red"}, bound={"validationActions": actions})
    options = plane.options()
    await plane.create(config_map("a", color="red"), options=options)
    warning = "Validation failed for ValidatingAdmissionPolicy 'colors' with binding 'colors-here': no red"
    assert options.warnings == ([warning] if "Warn" in actions else [])
    note = options.audit_annotations.get("validation.policy.admission.k8s.io/validation_failure")
    if "Audit" in actions:
        assert json.loads(note or "") == [
            {
                "message": "no red",
                "policy": "colors",
                "binding": "colors-here",
                "expressionIndex": 0,
                "validationActions": actions,
            }
        ]
    else:
        assert note is None


async def test_audit_annotations_are_noted(plane: Plane) -> None:
    annotations = [
        {"key": "color", "valueExpression": "'color is ' + object.data.color"},
        {"key": "silent", "valueExpression": "object.data.color == 'red' ? 'loud' : ' '"},
        {"key": "none", "valueExpression": "null"},
    ]
    await install(plane, spec={"auditAnnotations": annotations, "validations": []})
    options = plane.options()
    await plane.create(config_map("a", color="blue"), options=options)
    assert options.audit_annotations == {"colors/color": "color is blue"}


async def test_a_policy_without_binding_is_not_asked(plane: Plane) -> None:
    await plane.create(policy("colors", {"expression": "false"}))
    await plane.create(config_map("a"))
    await plane.create(binding("colors-here", "colors"))
    await refusal(plane, config_map("b"))
    await plane.delete("ValidatingAdmissionPolicyBinding", "colors-here")
    await plane.create(config_map("b"))


async def test_a_changed_policy_counts_at_once_and_others_are_not_compiled_again(plane: Plane) -> None:
    await install(plane, {"expression": RED})
    await plane.create(policy("sizes", {"expression": "size(object.data) < 5"}))
    await plane.create(binding("sizes-here", "sizes"))
    await plane.create(config_map("a", color="blue"))
    plugin = next(one for one in plane.chain.plugins if type(one).__name__ == "ValidatingPolicies")
    before = dict(plugin._compiled)  # type: ignore[attr-defined] # of this plugin only
    await plane.change(
        "ValidatingAdmissionPolicy", "colors", lambda obj: obj["spec"]["validations"][0].update(expression="false")
    )
    await refusal(plane, config_map("b", color="blue"))
    after = plugin._compiled  # type: ignore[attr-defined] # of this plugin only
    assert sum(after[uid] is not known for uid, known in before.items()) == 1


async def test_admissions_own_configuration_is_never_refused(plane: Plane) -> None:
    everything = rule(apiGroups=["*"], apiVersions=["*"], resources=["*/*"], operations=["*"])
    constraints = {"resourceRules": [everything]}
    await install(plane, {"expression": "false"}, spec={"matchConstraints": constraints})
    await refusal(plane, config_map("a"))
    await plane.delete("ValidatingAdmissionPolicy", "colors")
    await plane.create(config_map("a"))


async def test_a_binding_narrows_by_namespace_and_object(plane: Plane) -> None:
    await plane.namespace("strict", level="strict")
    selected = {
        "namespaceSelector": {"matchLabels": {"level": "strict"}},
        "objectSelector": {"matchExpressions": [{"key": "exempt", "operator": "DoesNotExist"}]},
    }
    await install(plane, {"expression": RED}, bound={"matchResources": selected})
    await plane.create(config_map("a", color="red"))
    await refusal(plane, config_map("a", "strict", color="red"))
    exempt = config_map("b", "strict", color="red")
    exempt["metadata"]["labels"] = {"exempt": "yes"}
    await plane.create(exempt)


# The policies that this project itself prints.


def lease(holder: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "manager", "namespace": "work"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }


async def test_a_lease_as_parameter_fences_off_former_leaders(plane: Plane) -> None:
    await plane.create(lease("manager-0"))
    fence = policy(
        "fence",
        {
            "expression": "has(params.spec.holderIdentity) && "
            "params.spec.holderIdentity == request.userInfo.extra['authentication.kubernetes.io/pod-name'][0]",
            "messageExpression": "'the leader is ' + params.spec.holderIdentity",
            "reason": "Forbidden",
        },
        paramKind={"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
        matchConditions=[
            {"name": "managers", "expression": "request.userInfo.username == 'system:serviceaccount:work:manager'"}
        ],
    )
    reference = {"name": "manager", "namespace": "work", "parameterNotFoundAction": "Deny"}
    await plane.create(fence)
    await plane.create(binding("fence", "fence", paramRef=reference))

    def replica(name: str) -> UserInfo:
        return UserInfo("system:serviceaccount:work:manager", extra={"authentication.kubernetes.io/pod-name": (name,)})

    await plane.create(config_map("a"), user=replica("manager-0"))
    error = await refusal(plane, config_map("b"), user=replica("manager-1"))
    assert (error.code, error.message.rpartition(": ")[2]) == (403, "the leader is manager-0")
    await plane.change("Lease", "manager", lambda obj: obj["spec"].update(holderIdentity="manager-1"), namespace="work")
    await plane.create(config_map("b"), user=replica("manager-1"))
    await refusal(plane, config_map("c"), user=replica("manager-0"))
    await plane.create(config_map("c"))  # others are not fenced
    await plane.delete("Lease", "manager", namespace="work")
    error = await refusal(plane, config_map("d"), user=replica("manager-1"))
    assert error.message.endswith(
        "denied request: failed to configure binding: "
        "no params found for policy binding with `Deny` parameterNotFoundAction"
    )


async def test_a_foreign_node_is_safe_from_a_cloud_controller_manager(plane: Plane) -> None:
    constraints = {"resourceRules": [rule(resources=["nodes", "nodes/status"], operations=["UPDATE", "DELETE"])]}
    owned = policy(
        "cloud-a",
        {"expression": "oldObject.spec.?providerID.orValue('').startsWith('a://')", "message": "not a node of cloud a"},
        matchConstraints=constraints,
        matchConditions=[{"name": "ccm", "expression": "request.userInfo.username == 'ccm-a'"}],
    )
    await plane.create(owned)
    await plane.create(binding("cloud-a", "cloud-a"))
    for name in ("a", "b"):
        made = node(name)
        made["spec"]["providerID"] = f"{name}://1"
        await plane.create(made)
    ccm = UserInfo("ccm-a")

    def ready(obj: Json) -> None:
        obj["status"] = {"phase": "Running"}

    await plane.change("Node", "a", ready, subresource="status", user=ccm)
    with pytest.raises(errors.Invalid, match="not a node of cloud a"):
        await plane.change("Node", "b", ready, subresource="status", user=ccm)
    with pytest.raises(errors.Invalid, match="not a node of cloud a"):
        await plane.delete("Node", "b", user=ccm)
    await plane.delete("Node", "b")
    await plane.delete("Node", "a", user=ccm)


@pytest.mark.parametrize("action", ["Allow", "Deny"])
async def test_parameters_by_selector_are_all_asked(plane: Plane, action: str) -> None:
    limits = policy(
        "limits",
        {"expression": "size(object.data) <= int(params.data.max)", "messageExpression": "'max ' + params.data.max"},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConstraints={"resourceRules": [rule(resources=["secrets"])]},
    )
    reference = {"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": action}
    await plane.create(limits)
    await plane.create(binding("limits", "limits", paramRef=reference))
    if action == "Deny":
        assert "no params found" in (await refusal(plane, secret("a", "x"))).message
    else:
        await plane.create(secret("a", "x"))
    for name, most in (("loose", "3"), ("tight", "1")):
        limit = config_map(name, max=most)
        limit["metadata"]["labels"] = {"limits": "yes"}
        await plane.create(limit)
    await plane.create(secret("b", "x"))
    assert (await refusal(plane, secret("c", "x", "y"))).message.endswith("denied request: max 1")
    await plane.delete("ConfigMap", "tight", namespace="work")
    await plane.create(secret("c", "x", "y"))


def secret(name: str, *keys: str) -> Json:
    data = dict.fromkeys(keys, "eA==")
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "work"}, "data": data}


async def test_a_namespaced_parameter_needs_a_namespace(plane: Plane) -> None:
    constraints = {"resourceRules": [rule(resources=["nodes"])]}
    await install(
        plane,
        {"expression": "params == null"},
        spec={"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConstraints": constraints},
        bound={"paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}},
    )
    assert (
        "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        in (await refusal(plane, node("a"))).message
    )


async def test_cost_is_bounded(plane: Plane) -> None:
    numbers = "[0,1,2,3,4,5,6,7,8,9]"
    expensive = f"{numbers}.all(a, " * 7 + "true" + ")" * 7
    await install(plane, {"expression": expensive})
    error = await refusal(plane, config_map("a"))
    assert "cost limit exceeded" in error.message or "cost budget" in error.message


async def test_pods_are_seen_after_the_other_plugins(plane: Plane) -> None:
    constraints = {"resourceRules": [rule(resources=["pods"])]}
    check = "object.spec.serviceAccountName == 'default' && object.spec.priority == 0"
    await install(plane, {"expression": check}, spec={"matchConstraints": constraints})
    await plane.create(pod("a"))
