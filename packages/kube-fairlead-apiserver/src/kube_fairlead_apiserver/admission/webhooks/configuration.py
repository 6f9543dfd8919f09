"""Webhook configurations, read once per change: endpoint, match criteria and failure policy.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/accessors.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/configuration/mutating_webhook_manager.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/configuration/validating_webhook_manager.go
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.admission.match_criteria import Criteria, UnusableCriteria
from kube_fairlead_apiserver.admission.object_reader import ObjectReader
from kube_fairlead_apiserver.registry.resource import Resource

if TYPE_CHECKING:
    from kube_fairlead_apiserver.admission.expressions.compilation import Expression
    from kube_fairlead_apiserver.admission.expressions.evaluation import Authorize

__all__ = ["GROUP", "Webhook", "read_hooks", "target_of"]


GROUP = "admissionregistration.k8s.io"


class Webhook(msgspec.Struct, frozen=True):
    """One webhook of one configuration."""

    uid: str  # unique: configuration, name and position
    name: str
    configuration: str
    criteria: Criteria
    conditions: tuple[Expression, ...]
    url: str  # empty for a service
    service: Json | None
    ca_bundle: str  # PEM
    review_versions: tuple[str, ...]
    fail_open: bool
    timeout_seconds: int
    allows_dry_run: bool
    reinvocable: bool


def read_hooks(objects: ObjectReader, plural: str) -> tuple[Webhook, ...]:
    """Return every webhook of a kind of configurations: by the name of its configuration, then in its order."""
    resource = objects.catalog.get(GROUP, "v1", plural)
    if resource is None:
        return ()
    # The store lists by key, which is the name.
    return tuple(hook for configuration in objects.list(resource) for hook in _hooks(configuration))


def _hooks(configuration: Json) -> Iterator[Webhook]:
    seen: dict[str, int] = {}
    owner = configuration["metadata"]["name"]
    for hook in configuration.get("webhooks") or ():
        name = hook.get("name", "")
        place = seen[name] = seen.get(name, -1) + 1
        yield _read(hook, owner, f"{owner}/{name}/{place}")


def _read(hook: Json, configuration: str, uid: str) -> Webhook:
    client = hook.get("clientConfig") or {}
    return Webhook(
        uid=uid,
        name=hook.get("name", ""),
        configuration=configuration,
        criteria=Criteria(
            hook.get("rules") or (),
            match_policy=hook.get("matchPolicy"),
            namespace_selector=hook.get("namespaceSelector"),
            object_selector=hook.get("objectSelector"),
        ),
        conditions=_compile(hook.get("matchConditions") or ()),
        url=client.get("url") or "",
        service=client.get("service"),
        # Also when invalid: an invalid bundle must make calls fail, not be ignored.
        ca_bundle=base64.b64decode(client.get("caBundle") or "").decode("latin-1"),
        review_versions=tuple(hook.get("admissionReviewVersions") or ()),
        fail_open=hook.get("failurePolicy") == "Ignore",
        timeout_seconds=hook.get("timeoutSeconds") or 10,
        allows_dry_run=hook.get("sideEffects") in {"None", "NoneOnDryRun"},
        reinvocable=hook.get("reinvocationPolicy") == "IfNeeded",
    )


def _compile(conditions: Sequence[Json]) -> tuple[Expression, ...]:
    if not conditions:
        return ()
    # Imported here: most webhooks have no conditions, and expressions need CEL.
    from kube_fairlead_apiserver.admission.expressions.compilation import compile_expression
    from kube_fairlead_apiserver.admission.expressions.environments import environment
    from kube_fairlead_apiserver.cel import types

    variables = environment(params=False, authorizer=True)
    return tuple(compile_expression(variables, one.get("expression", ""), types.BOOL) for one in conditions)


def target_of(hook: Webhook, operation: Operation, objects: ObjectReader, authorize: Authorize) -> Resource | None:
    """Return the resource as which the webhook sees the write; None when it is not called."""
    try:
        target = hook.criteria.match(operation, objects)
    except UnusableCriteria as error:
        raise errors.internal_error(error) from error
    if target is None or not hook.conditions:
        return target
    from kube_fairlead_apiserver.admission.expressions.conditions import ConditionsFailed, conditions_hold
    from kube_fairlead_apiserver.admission.expressions.evaluation import Activation

    activation = Activation(operation, target, authorize=authorize)
    try:
        return target if conditions_hold(hook.conditions, activation, fail_open=hook.fail_open) else None
    except ConditionsFailed as error:
        raise operation.forbidden(error) from None
