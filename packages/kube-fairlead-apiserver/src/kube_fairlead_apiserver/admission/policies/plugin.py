"""ValidatingAdmissionPolicy: evaluates every policy bound to a write, and denies, warns or audits.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/validating/dispatcher.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/validating/policy_decision.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/generic/policy_dispatcher.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/generic/policy_matcher.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.admission.match_criteria import Criteria, UnusableCriteria, is_configuration
from kube_fairlead_apiserver.admission.object_reader import ObjectReader
from kube_fairlead_apiserver.admission.policies.parameters import Parameters, PolicyUnusable
from kube_fairlead_apiserver.registry.resource import Resource

if TYPE_CHECKING:
    from kube_fairlead_apiserver.admission.expressions.evaluation import Authorize
    from kube_fairlead_apiserver.admission.policies.compilation import Policy, PolicyBinding
    from kube_fairlead_apiserver.admission.policies.evaluation import Violation

__all__ = ["ValidatingPolicies"]


_GROUP = "admissionregistration.k8s.io"
_POLICIES = (_GROUP, "v1", "validatingadmissionpolicies")
_BINDINGS = (_GROUP, "v1", "validatingadmissionpolicybindings")
# Reviews are never stored. A policy that intercepts them could lock out every user.
_REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_FAILURE_NOTE = "validation.policy.admission.k8s.io/validation_failure"
_MAX_NOTE_BYTES = 10 * 1024


class _Denial(msgspec.Struct, frozen=True):
    policy: str
    binding: str | None
    message: str
    reason: str = ""


class _Findings(msgspec.Struct):
    """The results of all policies for one write."""

    denials: list[_Denial] = []
    annotations: dict[tuple[str, str], list[str]] = {}


class ValidatingPolicies(AdmissionPlugin):
    """Policies with a binding; a policy without a binding is never evaluated."""

    def __init__(self, objects: ObjectReader, authorize: Authorize) -> None:
        self._objects = objects
        self._authorize = authorize
        self._parameters = Parameters(objects)
        self._compiled: dict[str, tuple[int, Policy]] = {}  # by uid: the generation that was compiled
        self._bound = objects.derive([_POLICIES, _BINDINGS], self._read)

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Everything but reviews and admission's own configuration."""
        del operation, subresource
        return not is_configuration(group, plural) and group not in _REVIEWS

    def _read(self) -> list[tuple[Policy, list[PolicyBinding]]]:
        """Policies by name, each with its bindings by name. What has not changed is not compiled again."""
        catalog = self._objects.catalog
        policies, bindings = catalog.get(*_POLICIES), catalog.get(*_BINDINGS)
        found_bindings = [] if bindings is None else list(self._objects.list(bindings))
        if not found_bindings:
            return []
        # Imported here: policies need CEL, which a server without policies never needs.
        from kube_fairlead_apiserver.admission.policies.compilation import compile_policy, read_binding

        bound: dict[str, list[PolicyBinding]] = {}
        for obj in found_bindings:
            binding = read_binding(obj)
            bound.setdefault(binding.policy, []).append(binding)
        compiled: dict[str, tuple[int, Policy]] = {}
        found: list[tuple[Policy, list[PolicyBinding]]] = []
        for obj in [] if policies is None else self._objects.list(policies):
            metadata = obj["metadata"]
            if metadata["name"] not in bound:
                continue
            known = self._compiled.get(metadata["uid"])
            if known is None or known[0] != metadata.get("generation"):
                known = (metadata.get("generation", 0), compile_policy(obj))
            compiled[metadata["uid"]] = known
            found.append((known[1], bound[metadata["name"]]))
        self._compiled = compiled
        return found

    async def validate(self, operation: Operation) -> None:
        """Evaluate every policy; of several denials the client gets the first."""
        bound = self._bound.get()
        if not bound:
            return
        findings = _Findings()
        for policy, bindings in bound:
            self._ask(policy, bindings, operation, findings)
        for (policy_name, key), values in findings.annotations.items():
            operation.annotate(f"{policy_name}/{key}", ", ".join(values))
        if findings.denials:
            raise _refusal(operation, findings.denials[0])

    def _ask(self, policy: Policy, bindings: list[PolicyBinding], operation: Operation, findings: _Findings) -> None:
        try:
            target = self._match(policy.criteria, operation)
            if target is None:
                return
            param_resource = self._parameters.resource(policy)
        except PolicyUnusable as error:
            if not policy.fail_open:
                message = f"failed to configure policy: {error}"
                findings.denials.append(_Denial(policy.name, None, message))
            return
        for binding in bindings:
            try:
                if binding.criteria is not None and self._match(binding.criteria, operation) is None:
                    continue
                params = self._parameters.collect(param_resource, binding, operation.scope)
            except PolicyUnusable as error:
                if not policy.fail_open:
                    message = f"failed to configure binding: {error}"
                    findings.denials.append(_Denial(policy.name, binding.name, message))
                continue
            for param in params:
                self._evaluate(policy, binding, operation, target, param, findings)

    def _match(self, criteria: Criteria | None, operation: Operation) -> Resource | None:
        if criteria is None:
            raise PolicyUnusable("policy contained no match constraints, a required field")
        try:
            return criteria.match(operation, self._objects)
        except (errors.NotFound, UnusableCriteria) as error:
            raise PolicyUnusable(str(error)) from error

    def _evaluate(
        self,
        policy: Policy,
        binding: PolicyBinding,
        operation: Operation,
        target: Resource,
        param: Json | None,
        findings: _Findings,
    ) -> None:
        from kube_fairlead_apiserver.admission.expressions.evaluation import Activation
        from kube_fairlead_apiserver.admission.policies.evaluation import evaluate

        activation = Activation(
            operation,
            target,
            authorize=self._authorize,
            params=param,
            namespace=lambda: self._namespace(operation),
            variables=policy.variables,
        )
        answer = evaluate(policy, activation)
        for violation in answer.violations:
            _act(policy, binding, violation, operation, findings)
        for key, value in answer.annotations:
            values = findings.annotations.setdefault((policy.name, key), [])
            cut = value.encode()[:_MAX_NOTE_BYTES].decode("utf-8", "ignore")
            if cut not in values:
                values.append(cut)
        findings.denials += [_Denial(policy.name, binding.name, failure) for failure in answer.failures]

    def _namespace(self, operation: Operation) -> Json | None:
        name = "" if operation.is_namespace else operation.namespace
        if not name:
            return None
        namespace = self._objects.find("", "v1", "namespaces", "", name)
        if namespace is None:
            raise errors.not_found(GroupResource("", "namespaces"), name)
        return namespace


def _act(
    policy: Policy, binding: PolicyBinding, violation: Violation, operation: Operation, findings: _Findings
) -> None:
    for action in binding.actions:
        match action:
            case "Deny":
                findings.denials.append(_Denial(policy.name, binding.name, violation.message, violation.reason))
            case "Warn":
                operation.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' "
                    f"with binding '{binding.name}': {violation.message}"
                )
            case "Audit":
                note = {
                    "message": violation.message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": violation.index,
                    "validationActions": list(binding.actions),
                }
                operation.annotate(_FAILURE_NOTE, msgspec.json.encode([note]).decode())
            case _:
                pass


def _refusal(operation: Operation, denial: _Denial) -> errors.ApiError:
    bound = f" with binding '{denial.binding}'" if denial.binding is not None else ""
    message = f"ValidatingAdmissionPolicy '{denial.policy}'{bound} denied request: {denial.message}"
    refusal = operation.forbidden(message)
    reason = denial.reason or "Invalid"
    status = refusal.to_status() | {
        "reason": reason,
        "code": _CODES.get(reason, 422),
        "details": {**(refusal.details or {}), "causes": [{"message": message}]},
    }
    return errors.from_status(status)
