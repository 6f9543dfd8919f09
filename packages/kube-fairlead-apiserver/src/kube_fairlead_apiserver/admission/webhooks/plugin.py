"""The part that mutating and validating webhooks share: matching, calling, and the failure policy.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/generic/webhook.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kube_fairlead.api import errors
from kube_fairlead.base import logs
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.admission.match_criteria import is_configuration
from kube_fairlead_apiserver.admission.object_reader import ObjectReader
from kube_fairlead_apiserver.admission.webhooks.caller import CallFailed, WebhookCaller, denial
from kube_fairlead_apiserver.admission.webhooks.configuration import GROUP, Webhook, read_hooks, target_of
from kube_fairlead_apiserver.admission.webhooks.review import AdmissionResponse
from kube_fairlead_apiserver.observability.admission_metrics import AdmissionMetrics
from kube_fairlead_apiserver.registry.resource import Resource

if TYPE_CHECKING:
    from kube_fairlead_apiserver.admission.expressions.evaluation import Authorize

__all__ = ["WebhookPlugin"]

_log = logs.get_logger("apiserver.admission")


class WebhookPlugin(AdmissionPlugin):
    """Calls the webhooks of one kind of configuration."""

    plural: ClassVar[str]
    step: ClassVar[str]  # the name in metrics
    mutating: ClassVar[bool] = False

    def __init__(
        self, objects: ObjectReader, caller: WebhookCaller, authorize: Authorize, metrics: AdmissionMetrics
    ) -> None:
        self._objects = objects
        self._caller = caller
        self._authorize = authorize
        self._metrics = metrics
        self._hooks = objects.derive([(GROUP, "v1", self.plural)], lambda: read_hooks(objects, self.plural))

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Everything but admission's own configuration."""
        del operation, subresource
        return not is_configuration(group, plural)

    def target(self, hook: Webhook, operation: Operation) -> Resource | None:
        """Return the resource as which a webhook sees the object; None when it does not match."""
        return target_of(hook, operation, self._objects, self._authorize)

    async def ask(self, hook: Webhook, operation: Operation, target: Resource) -> AdmissionResponse:
        """The verdict of a webhook that allows the write.

        Raises:
            ApiError: the webhook's denial, as the client sees it.
            CallFailed: the call failed, or the response is invalid.
        """
        began = self._metrics.now()
        try:
            verdict = await self._caller.ask(hook, operation, target, mutating=self.mutating)
        except CallFailed as error:
            self._count(began, hook, operation, code=error.code, rejected=not hook.fail_open)
            raise
        refusal = None if verdict.allowed else denial(hook.name, verdict.status)
        self._count(began, hook, operation, code=refusal.code if refusal else 200, rejected=refusal is not None)
        if refusal is not None:
            self._metrics.refused(hook.name, self.step, operation.operation, code=refusal.code, failed=False)
            raise refusal
        return verdict

    def ignore(self, hook: Webhook, operation: Operation, error: CallFailed, note: str) -> None:
        """Ignore a failed call if the failurePolicy says so; otherwise raise the rejection."""
        if not hook.fail_open:
            self._metrics.refused(hook.name, self.step, operation.operation, code=0, failed=True)
            raise errors.internal_error(error) from error
        _log.warning("webhook failed; ignored by its failurePolicy", webhook=hook.name, error=str(error))
        self._metrics.failed_open(hook.name, self.step)
        operation.annotate(note, hook.name)

    def _count(self, began: float, hook: Webhook, operation: Operation, *, code: int, rejected: bool) -> None:
        self._metrics.webhook(began, hook.name, self.step, operation.operation, code=code, rejected=rejected)
