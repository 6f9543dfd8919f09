"""Whose cordon it is. `spec.unschedulable` is one bit that everybody may set; an annotation says when it was us.

node                              drain                      uncordon
schedulable                       cordon, and say it's ours  nothing to undo
cordoned, annotated               leave                      undo, and remove the annotation
cordoned, not annotated           leave, it is another's     refuse, unless told to
schedulable, annotated            cordon anew                remove the stale annotation
"""

from __future__ import annotations

from typing import Any

from fairlead.api.core_v1 import Node
from fairlead.api.reserved import ANNOTATION_CORDONED_BY

__all__ = ["cordon", "foreign_cordon", "refusal", "uncordon"]


def cordon(node: Node, event_name: str) -> dict[str, Any] | None:
    """The merge patch that cordons a node for an event; None when it is cordoned already, by whomever."""
    if node.spec.unschedulable:
        return None
    return {
        "metadata": {**_version(node), "annotations": {ANNOTATION_CORDONED_BY: event_name}},
        "spec": {"unschedulable": True},
    }


def uncordon(node: Node) -> dict[str, Any] | None:
    """The merge patch that makes a node schedulable again; None when it is, and nothing of ours is left on it."""
    if not node.spec.unschedulable and ANNOTATION_CORDONED_BY not in node.metadata.annotations:
        return None
    return {
        "metadata": {**_version(node), "annotations": {ANNOTATION_CORDONED_BY: None}},
        "spec": {"unschedulable": None},
    }


def foreign_cordon(node: Node) -> bool:
    """Whether somebody else cordoned the node."""
    return node.spec.unschedulable and ANNOTATION_CORDONED_BY not in node.metadata.annotations


def refusal(node: Node) -> str:
    """Why a node is not uncordoned."""
    return (
        f"node {node.name} was cordoned by somebody else, not by Fairlead, so it stays cordoned;"
        f" to undo it all the same: fairlead uncordon {node.name} --force"
    )


def _version(node: Node) -> dict[str, str]:
    # Read, decided, written: nobody else in between.
    return {"resourceVersion": node.metadata.resource_version, "uid": node.uid}
