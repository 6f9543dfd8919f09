"""What a user does to nodes: drain, uncordon, maintain. Typed requests, typed progress, typed outcomes; no terminal.

Here belongs requesting a transition by creating a LifecycleEvent, following the event to its end, and doing that for
several nodes within limits. Nothing here evicts pods, cordons nodes or claims events: the node's agent and its drivers
do that, whether or not a program follows. Nothing here parses flags, prints, or handles signals: the command line, a
dashboard, a controller or a user's own program does.
Before: the components, which carry the events out. After: the command line, which prints the progress.

    event_requests   the event of a request: the unfinished one, or a new one
    event_watch      the states of one event, until it has ended
    node_transition  one transition of one node, from the request to its end
    node_rollout     several nodes, within limits
    transitions      drain and uncordon
    maintenance      drain, work, Ready again, uncordon
    progress         the progress that all of them report

    async with client.connect() as api_server:
        nodes = await operations.select_nodes(api_server, names=["node-7"])
        outcomes = await operations.drain(api_server, nodes, report=print)
"""

from __future__ import annotations

from kube_fairlead.lifecycle.drain.options import DrainOptions
from kube_fairlead.lifecycle.drain.rollout import Limits
from kube_fairlead.operations.event_requests import RequestFailed, select_nodes
from kube_fairlead.operations.maintenance import MaintenanceRequest, Work, WorkFailed, maintain
from kube_fairlead.operations.progress import (
    AwaitingReady,
    Ended,
    EventChanged,
    EventJoined,
    EventRequested,
    HeldBack,
    MaintenanceStage,
    Operation,
    OperationProgress,
    Outcome,
    ProgressReport,
    Result,
    StageReached,
    Started,
    TransitionEnded,
    Unclaimed,
    ignore,
)
from kube_fairlead.operations.transitions import DrainRequest, UncordonRequest, drain, uncordon

__all__ = [
    "AwaitingReady",
    "DrainOptions",
    "DrainRequest",
    "Ended",
    "EventChanged",
    "EventJoined",
    "EventRequested",
    "HeldBack",
    "Limits",
    "MaintenanceRequest",
    "MaintenanceStage",
    "Operation",
    "OperationProgress",
    "Outcome",
    "ProgressReport",
    "RequestFailed",
    "Result",
    "StageReached",
    "Started",
    "TransitionEnded",
    "Unclaimed",
    "UncordonRequest",
    "Work",
    "WorkFailed",
    "drain",
    "ignore",
    "maintain",
    "select_nodes",
    "uncordon",
]
