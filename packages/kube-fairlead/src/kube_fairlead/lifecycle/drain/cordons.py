"""Whose cordon it is. `spec.unschedulable` is one bit that everybody may set; an annotation says when it was us.

node                              drain                      uncordon
schedulable                       cordon, and say it's ours  nothing to undo
cordoned, ours                    leave                      undo, and remove the annotation
cordoned, another's               leave                      refuse, unless told to
schedulable, annotated            cordon anew                remove the stale annotation

The annotation alone proves nothing: `kubectl uncordon` leaves it behind, and then somebody else may cordon. We set bit
and annotation in one write, so a cordon is ours when one writer of the node, by the server's own books (managedFields),
holds both. Whoever lifts a cordon takes the bit from us, and whoever sets it next holds it alone.

Upstream: k8s.io/kubectl@v0.36.4/pkg/drain/cordon.go
"""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import ANNOTATION_CORDONED_BY

__all__ = ["FIELD_MANAGER", "cordon", "foreign_cordon", "forget", "owner", "refusal", "uncordon"]

FIELD_MANAGER: Final = "fairlead-drain"
"""Who cordons, in the server's books: one name, so that one writer holds both, from the first life to the last."""

_MARK: Final = f"f:{ANNOTATION_CORDONED_BY}"


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


def forget(node: Node) -> dict[str, Any] | None:
    """The merge patch that removes the annotation from a node that somebody uncordoned; None when there is none."""
    if node.spec.unschedulable or ANNOTATION_CORDONED_BY not in node.metadata.annotations:
        return None
    return {"metadata": {**_version(node), "annotations": {ANNOTATION_CORDONED_BY: None}}}


def owner(node: Node) -> str:
    """The event for which we cordoned the node; empty when it is not cordoned, or by somebody else.

    Give it a node with all that the server said. Without managedFields, which some tools strip, the annotation counts.
    """
    mark = node.metadata.annotations.get(ANNOTATION_CORDONED_BY, "")
    if not mark or not node.spec.unschedulable:
        return ""
    writers: list[dict[str, Any]] = wire.to_dict(node)["metadata"].get("managedFields") or []
    fields = [one.get("fieldsV1") or {} for one in writers]
    holders = [one for one in fields if "f:unschedulable" in one.get("f:spec", {})]
    ours = [one for one in holders if _MARK in one.get("f:metadata", {}).get("f:annotations", {})]
    return mark if ours or not holders else ""


def foreign_cordon(node: Node) -> bool:
    """Whether somebody else cordoned the node."""
    return node.spec.unschedulable and not owner(node)


def refusal(node: Node) -> str:
    """Why a node is not uncordoned."""
    return (
        f"node {node.name} was cordoned by somebody else, not by Fairlead, so it stays cordoned;"
        f" to undo it all the same: fairlead uncordon {node.name} --force"
    )


def _version(node: Node) -> dict[str, str]:
    # Read, decided, written: nobody else in between.
    return {"resourceVersion": node.metadata.resource_version, "uid": node.uid}
