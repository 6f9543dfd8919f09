"""What a drain would do, without doing it."""

from __future__ import annotations

import dataclasses

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.client import subresources
from kube_fairlead.client.client import Client
from kube_fairlead.drivers.drain import node_watch
from kube_fairlead.lifecycle.drain import attempts, filters
from kube_fairlead.lifecycle.drain.filters import PodDeleteAction
from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = ["Preview", "preview"]


@dataclasses.dataclass(frozen=True, slots=True)
class Preview:
    """The pods that would be evicted, warnings, and why the drain would be rejected, if it would."""

    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    problem: str = ""


async def preview(
    client: Client, node_name: str, options: DrainOptions, *, on_server: bool, chunk_size: int = 500
) -> Preview:
    """Judge the pods of a node; with `on_server`, also dry-run each eviction on the server."""
    pods = await node_watch.list_pods(client, node_name, options, chunk_size=chunk_size)
    pod_deletes = await node_watch.delete_statuses(pods, options, node_watch.DaemonSets(client), client)
    if problem := filters.errors(pod_deletes):
        return Preview(problem=problem)
    warning = filters.warnings(pod_deletes)
    warnings = [warning] if warning else []
    lines = []
    for one in pod_deletes:
        if one.status.action is not PodDeleteAction.DELETE:
            continue
        run = "server dry run" if on_server else "dry run"
        lines.append(f"{'deleting' if options.disable_eviction else 'evicting'} pod {one.pod.key} ({run})")
        if on_server and (blocked := await _blocked(client, one.pod, options)):
            warnings.append(f"pod {one.pod.key} cannot be evicted now: {blocked}")
    return Preview(tuple(lines), tuple(warnings))


async def _blocked(client: Client, pod: Pod, options: DrainOptions) -> str:
    grace = options.grace_seconds
    try:
        if options.disable_eviction:
            await client.of(Pod).delete(
                pod.name, namespace=pod.namespace, uid=pod.uid, grace_period_seconds=grace, dry_run=True
            )
        else:
            await subresources.evict(
                client, pod.name, namespace=pod.namespace, uid=pod.uid, grace_period_seconds=grace, dry_run=True
            )
    except api_errors.NotFound:
        return ""
    except api_errors.ApiError as error:
        return attempts.explain(error)
    return ""
