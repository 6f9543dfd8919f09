"""Who cordoned a node. Every client may set `spec.unschedulable`; an annotation records that Fairlead did.

node                              drain                      uncordon
schedulable                       cordon and annotate        nothing to do
cordoned by Fairlead              leave                      uncordon, and remove the annotation
cordoned by another client        leave                      reject, unless forced
schedulable, annotated            cordon again               remove the stale annotation

The annotation alone proves nothing: `kubectl uncordon` leaves it in place, and another client may cordon afterwards.
Fairlead sets the field and the annotation in one write, so a cordon is Fairlead's when one manager owns both in
managedFields. A client that uncordons takes over the field, and the client that cordons next owns the field alone.

Upstream: k8s.io/kubectl@v0.36.4/pkg/drain/cordon.go
"""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import ANNOTATION_CORDONED_BY

__all__ = ["FIELD_MANAGER", "clear_annotation", "cordon", "foreign_cordon", "owner", "refusal", "uncordon"]

FIELD_MANAGER: Final = "fairlead-drain"
"""The field manager of a cordon: the same in every process, so that one manager owns the field and the annotation."""

_MARK: Final = f"f:{ANNOTATION_CORDONED_BY}"


def cordon(node: Node, event_name: str) -> dict[str, Any] | None:
    """Return the merge patch that cordons a node for an event; None when the node is cordoned already."""
    if node.spec.unschedulable:
        return None
    return {
        "metadata": {**_version(node), "annotations": {ANNOTATION_CORDONED_BY: event_name}},
        "spec": {"unschedulable": True},
    }


def uncordon(node: Node) -> dict[str, Any] | None:
    """Return the merge patch that uncordons a node; None when it is schedulable and has no annotation."""
    if not node.spec.unschedulable and ANNOTATION_CORDONED_BY not in node.metadata.annotations:
        return None
    return {
        "metadata": {**_version(node), "annotations": {ANNOTATION_CORDONED_BY: None}},
        "spec": {"unschedulable": None},
    }


def clear_annotation(node: Node) -> dict[str, Any] | None:
    """Return the merge patch that removes a stale annotation from a schedulable node; None without one."""
    if node.spec.unschedulable or ANNOTATION_CORDONED_BY not in node.metadata.annotations:
        return None
    return {"metadata": {**_version(node), "annotations": {ANNOTATION_CORDONED_BY: None}}}


def owner(node: Node) -> str:
    """Return the event for which Fairlead cordoned the node; empty when another client did, or none.

    The node must have its managedFields. Without them, which some tools strip, the annotation alone counts.
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
    """Whether another client cordoned the node."""
    return node.spec.unschedulable and not owner(node)


def refusal(node: Node) -> str:
    """Return the error for a node that is not uncordoned."""
    return (
        f"node {node.name} was not cordoned by Fairlead, so it stays cordoned;"
        f" to uncordon it anyway: fairlead uncordon {node.name} --force"
    )


def _version(node: Node) -> dict[str, str]:
    # The write fails if another client changed the node since it was read.
    return {"resourceVersion": node.metadata.resource_version, "uid": node.uid}
