"""The state of nodes and their history, read from the API server as typed values; no terminal.

Here belong reading the objects that describe nodes (`cluster_status`), reading the records of their finished events
(`node_history`), and both as plain data for JSON and YAML (`documents`). What the objects mean is decided by
`lifecycle.overview` and `cloud.ownership`. Nothing here writes to the cluster or prints.
Before: the components, which write the objects. After: the command line, which prints them.

    async with client.connect() as api_server:
        status = await overview.read_cluster_status(api_server)
"""

from __future__ import annotations

from kube_fairlead.overview.cluster_status import ClusterStatus, NodeSummary, Platform, read_cluster_status
from kube_fairlead.overview.documents import history_document, status_document
from kube_fairlead.overview.node_history import History, NodeHistory, read_history

__all__ = [
    "ClusterStatus",
    "History",
    "NodeHistory",
    "NodeSummary",
    "Platform",
    "history_document",
    "read_cluster_status",
    "read_history",
    "status_document",
]
