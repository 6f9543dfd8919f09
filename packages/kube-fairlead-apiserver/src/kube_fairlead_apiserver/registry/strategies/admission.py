"""Admission configuration: webhooks and policies, with the defaults that the admission chain relies on.

Validation is imported at its first use: it needs CEL, which most servers never need.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/admissionregistration/validatingwebhookconfiguration/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/admissionregistration/mutatingwebhookconfiguration/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/admissionregistration/validatingadmissionpolicy/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/admissionregistration/validatingadmissionpolicybinding/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/admissionregistration/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/admissionregistration/v1/zz_generated.validations.go
"""

from __future__ import annotations

from kube_fairlead.api.fielderrors import FieldError
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = [
    "MutatingWebhookConfigurationStrategy",
    "PolicyBindingStrategy",
    "PolicyStrategy",
    "WebhookConfigurationStrategy",
    "default_match_resources",
]


class WebhookConfigurationStrategy(Strategy):
    """Validating and mutating webhook configurations."""

    allow_unconditional_update: bool = False
    tracks_generation: bool = True

    def default(self, obj: Json) -> None:
        """Defaults: failurePolicy Fail, matchPolicy Equivalent, empty selectors, ten seconds."""
        for webhook in obj.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("matchPolicy", "Equivalent")
            for selector in ("namespaceSelector", "objectSelector"):
                if webhook.get(selector) is None:
                    webhook[selector] = {}
            webhook.setdefault("timeoutSeconds", 10)
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate the configuration."""
        from kube_fairlead_apiserver.admission.validation.webhook_configurations import validate_webhook_configuration

        return validate_webhook_configuration(obj)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change; errors of the old configuration are accepted."""
        from kube_fairlead_apiserver.admission.validation.webhook_configurations import validate_webhook_configuration

        return validate_webhook_configuration(obj, old)

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """A change of the webhooks is a new generation."""
        return bool(obj.get("webhooks") != old.get("webhooks"))


class MutatingWebhookConfigurationStrategy(WebhookConfigurationStrategy):
    """Mutating webhook configurations, with a reinvocation policy."""

    def default(self, obj: Json) -> None:
        """Default: reinvocationPolicy Never."""
        super().default(obj)
        for webhook in obj.get("webhooks") or ():
            webhook.setdefault("reinvocationPolicy", "Never")


class PolicyStrategy(Strategy):
    """ValidatingAdmissionPolicy."""

    allow_unconditional_update: bool = False
    has_status: bool = True
    tracks_generation: bool = True

    def default(self, obj: Json) -> None:
        """Defaults: failurePolicy Fail, matchPolicy Equivalent."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        constraints = spec.get("matchConstraints")
        if constraints is not None:
            default_match_resources(constraints)

    def validate(self, obj: Json) -> list[FieldError]:
        """The spec, with every expression compiled."""
        from kube_fairlead_apiserver.admission.validation.policies import validate_policy

        return validate_policy(obj)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The same."""
        from kube_fairlead_apiserver.admission.validation.policies import validate_policy

        return validate_policy(obj, old)


class PolicyBindingStrategy(Strategy):
    """ValidatingAdmissionPolicyBinding."""

    allow_unconditional_update: bool = False
    tracks_generation: bool = True

    def default(self, obj: Json) -> None:
        """Defaults of the match resources, as for a policy."""
        resources = (obj.get("spec") or {}).get("matchResources")
        if resources is not None:
            default_match_resources(resources)

    def validate(self, obj: Json) -> list[FieldError]:
        """The policy's name, parameters and actions."""
        from kube_fairlead_apiserver.admission.validation.policies import validate_binding

        return validate_binding(obj)


def default_match_resources(resources: Json) -> None:
    """Defaults: empty selectors, matchPolicy Equivalent."""
    resources.setdefault("matchPolicy", "Equivalent")
    for selector in ("namespaceSelector", "objectSelector"):
        if resources.get(selector) is None:
            resources[selector] = {}
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in resources.get(field) or ():
            rule.setdefault("scope", "*")
