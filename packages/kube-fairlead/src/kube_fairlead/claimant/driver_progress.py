"""Convert the progress that drivers report, cut to the limits of the API."""

from __future__ import annotations

from kube_fairlead.api.lifecycle_v1alpha1 import PodOutcome, Progress
from kube_fairlead.api.validation.lifecycle import BLOCKED_BY_MAX_LENGTH, PODS_MAX
from kube_fairlead.driverapi import messages

__all__ = ["pods_of", "progress_of"]


def progress_of(report: messages.Progress) -> Progress:
    """Return the progress of a report."""
    return Progress(done=report.done, total=report.total, unit=report.unit[:63])


def pods_of(report: messages.Progress) -> tuple[PodOutcome, ...]:
    """Return the pods of a report."""
    return tuple(
        PodOutcome(
            namespace=one.namespace[:63],
            name=one.name[:253],
            uid=one.uid[:128],
            state=one.state[:63],
            attempts=one.attempts,
            blocked_by=one.blocked_by[:BLOCKED_BY_MAX_LENGTH],
        )
        for one in report.pods[:PODS_MAX]
    )
