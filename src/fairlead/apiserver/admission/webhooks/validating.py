"""ValidatingAdmissionWebhook: every webhook that cares is asked, all at once; one refusal is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.api import errors
from fairlead.apiserver.admission.interface import AdmissionPlugin, Operation
from fairlead.apiserver.admission.matching import is_configuration
from fairlead.apiserver.admission.objects import Objects
from fairlead.apiserver.admission.webhooks.calling import Caller, CallFailed, denial
from fairlead.apiserver.admission.webhooks.hooks import GROUP, Webhook, read_hooks, target_of
from fairlead.apiserver.registry.resource import Resource
from fairlead.base import logs
from fairlead.base.tasks import TaskScope

if TYPE_CHECKING:
    from fairlead.apiserver.admission.expressions.evaluation import Authorize

__all__ = ["ValidatingWebhooks"]

_PLURAL = "validatingwebhookconfigurations"
_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/"
_log = logs.get_logger("apiserver.admission")


class ValidatingWebhooks(AdmissionPlugin):
    """Asks webhooks about the final object."""

    def __init__(self, objects: Objects, caller: Caller, authorize: Authorize) -> None:
        self._objects = objects
        self._caller = caller
        self._authorize = authorize
        self._hooks = objects.derive([(GROUP, "v1", _PLURAL)], lambda: read_hooks(objects, _PLURAL))

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Everything but admission's own configuration."""
        del operation, subresource
        return not is_configuration(group, plural)

    async def validate(self, operation: Operation) -> None:
        """Ask all, then tell of the first refusal in the order of the webhooks."""
        hooks = self._hooks.get()
        if not hooks:
            return
        found = [(hook, target_of(hook, operation, self._objects, self._authorize)) for hook in hooks]
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
            verdict = await self._caller.ask(hook, operation, target, mutating=False)
        except CallFailed as error:
            if not hook.fail_open:
                return errors.internal_error(error)
            _log.warning("webhook failed and is ignored", webhook=hook.name, why=str(error))
            operation.annotate(f"{_FAILED_OPEN}round_0_index_{index}", hook.name)
            return None
        except errors.ApiError as error:
            return error
        return None if verdict.allowed else denial(hook.name, verdict.status)
