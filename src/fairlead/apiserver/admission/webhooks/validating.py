"""ValidatingAdmissionWebhook: every webhook that cares is asked, all at once; one refusal is enough."""

from __future__ import annotations

from fairlead.api import errors
from fairlead.apiserver.admission.interface import Operation
from fairlead.apiserver.admission.webhooks.calling import CallFailed
from fairlead.apiserver.admission.webhooks.hooks import Webhook
from fairlead.apiserver.admission.webhooks.plugin import WebhookPlugin
from fairlead.apiserver.registry.resource import Resource
from fairlead.base.tasks import TaskScope

__all__ = ["ValidatingWebhooks"]

_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/"


class ValidatingWebhooks(WebhookPlugin):
    """Asks webhooks about the final object."""

    plural = "validatingwebhookconfigurations"
    step = "validating"

    async def validate(self, operation: Operation) -> None:
        """Ask all, then tell of the first refusal in the order of the webhooks."""
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
        """Why this webhook refuses; None when it does not."""
        try:
            try:
                await self.ask(hook, operation, target)
            except CallFailed as error:
                self.ignore(hook, operation, error, f"{_FAILED_OPEN}round_0_index_{index}")
        except errors.ApiError as error:
            return error
        return None
