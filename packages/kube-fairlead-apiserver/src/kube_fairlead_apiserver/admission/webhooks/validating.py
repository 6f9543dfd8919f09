"""ValidatingAdmissionWebhook: every matching webhook is called, all at once; one denial rejects the write.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/validating/dispatcher.go
"""

from __future__ import annotations

from kube_fairlead.api import errors
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.admission.webhooks.caller import CallFailed
from kube_fairlead_apiserver.admission.webhooks.configuration import Webhook
from kube_fairlead_apiserver.admission.webhooks.plugin import WebhookPlugin
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["ValidatingWebhooks"]

_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/"


class ValidatingWebhooks(WebhookPlugin):
    """Calls webhooks with the final object."""

    plural = "validatingwebhookconfigurations"
    step = "validating"

    async def validate(self, operation: Operation) -> None:
        """Call all webhooks, then raise the first denial in the order of the webhooks."""
        hooks = self._hooks.get()
        if not hooks:
            return
        found = [(hook, self.target(hook, operation)) for hook in hooks]
        relevant = [(hook, target) for hook, target in found if target is not None]
        if not relevant:
            return
        if len(relevant) == 1:
            refusals = [await self._ask(*relevant[0], operation, 0)]
        else:
            async with TaskScope("admission") as scope:
                tasks = [
                    scope.start(self._ask(hook, target, operation, index), name=hook.name)
                    for index, (hook, target) in enumerate(relevant)
                ]
            refusals = [task.result() for task in tasks]
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    async def _ask(self, hook: Webhook, target: Resource, operation: Operation, index: int) -> errors.ApiError | None:
        """Return the denial of this webhook; None when it allows the write."""
        try:
            try:
                await self.ask(hook, operation, target)
            except CallFailed as error:
                self.ignore(hook, operation, error, f"{_FAILED_OPEN}round_0_index_{index}")
        except errors.ApiError as error:
            return error
        return None
