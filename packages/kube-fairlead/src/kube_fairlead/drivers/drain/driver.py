"""The driver: what it does for DrainStarted, DrainComplete, Uncordoning and MaintenanceComplete."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.reserved import DRIVER_DRAIN, NODE_DRAIN, NODE_UNCORDON
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.metrics import DiscardedMetrics, Metrics
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.driverapi.errors import DriverGone
from kube_fairlead.driverapi.messages import OfferedTransition, Work
from kube_fairlead.drivers.drain import node_cordon, node_watch
from kube_fairlead.drivers.drain.drain_metrics import DrainMetrics
from kube_fairlead.drivers.drain.node_drain import Drain
from kube_fairlead.drivers.sdk.driver import Driver, Refused, Report
from kube_fairlead.lifecycle.drain import cordons, filters, options
from kube_fairlead.lifecycle.drain.options import PROFILE, DrainOptions

__all__ = ["DrainDriver"]

_log = logs.get_logger(__name__)


class DrainDriver(Driver):
    """Server-side drain.

    The start of a drain is quick: it rejects what kubectl would reject, before it changes anything, and cordons. The
    end takes as long as the pods do. A driver with a node name rejects all other nodes. The states decide which of
    the two transitions is meant, so that other transitions, such as one with an SLA, may use them too.
    """

    name = DRIVER_DRAIN
    transitions = tuple(
        OfferedTransition(name=transition.name, start=transition.start, end=transition.end)
        for transition in (NODE_DRAIN, NODE_UNCORDON)
    )

    def __init__(
        self,
        client: Client,
        *,
        node_name: str = "",
        profile: DrainOptions = PROFILE,
        recorder: EventRecorder | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._profile = profile
        self._recorder = recorder
        self._metrics = DrainMetrics(metrics or DiscardedMetrics(), client.clock)
        self._cleanup = tasks.TaskSet("drain", on_failure=_log_failure)

    async def start(self, work: Work) -> None:
        """Reject, or cordon. For an uncordon, only check that it is allowed."""
        with _retryable():
            await self._start(work)

    async def end(self, work: Work, report: Report) -> None:
        """Drain, or uncordon."""
        with _retryable():
            await self._end(work, report)

    async def _start(self, work: Work) -> None:
        if self._node_name and work.node_name != self._node_name:
            raise Refused(f"this driver is for node {self._node_name}, not for {work.node_name}")
        if work.start == NODE_UNCORDON.start:
            node = await node_cordon.read_node(self._client, work.node_name, work.node_uid)
            if not self._is_forced(work) and cordons.foreign_cordon(node):
                raise Refused(cordons.refusal(node))
            return
        drain_options = self._options(work)
        await node_cordon.read_node(self._client, work.node_name, work.node_uid)
        pods = await node_watch.list_pods(self._client, work.node_name, drain_options)
        pod_deletes = await node_watch.delete_statuses(
            pods, drain_options, node_watch.DaemonSets(self._client), self._client
        )
        if refusals := filters.errors(pod_deletes):
            raise Refused(refusals)
        if warned := filters.warnings(pod_deletes):
            _log.warning("drain skips pods", event=work.event_name, node=work.node_name, warning=warned)
        await node_cordon.cordon(self._client, work.node_name, work.node_uid, work.event_name)

    async def _end(self, work: Work, report: Report) -> None:
        if work.start == NODE_UNCORDON.start:
            await node_cordon.uncordon(self._client, work.node_name, work.node_uid, force=self._is_forced(work))
            return
        try:
            drain = Drain(
                self._client,
                work,
                self._options(work),
                report,
                self._recorder,
                metrics=self._metrics,
                cleanup=self._cleanup,
            )
            await drain.run()
        except Refused:
            await node_cordon.forget(self._client, work.node_name, work.node_uid)
            raise

    def _options(self, work: Work) -> DrainOptions:
        try:
            return options.parse(work.options, self._profile)
        except options.OptionError as error:
            raise Refused(str(error)) from error

    def _is_forced(self, work: Work) -> bool:
        try:
            return options.parse_uncordon(work.options)
        except options.OptionError as error:
            raise Refused(str(error)) from error


def _log_failure(error: BaseException) -> None:
    _log.error("cleanup after a drain failed", error=str(error))


@contextlib.contextmanager
def _retryable() -> Iterator[None]:
    """An unreachable, busy or broken API server does not fail an event: the agent calls again."""
    try:
        yield
    except client_errors.ClientError as error:
        if not error.is_retryable:
            raise
        raise DriverGone(str(error)) from error
    except api_errors.ApiError as error:
        if error.code != 429 and error.code < 500:
            raise
        raise DriverGone(str(error)) from error
