"""What the types cannot say about records of nodes: descriptions, bounds, and CEL rules. As `api.crdrules`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kube_fairlead.api.crdrules import Field, Rule, pod_fields, progress_fields
from kube_fairlead.api.lifecycle_v1alpha1 import TERMINAL, RequesterSource
from kube_fairlead.api.validation import lifecycle as rules

__all__ = ["ENTRIES_MAX", "MESSAGE_MAX_LENGTH", "RECORD_FIELDS"]

ENTRIES_MAX: Final = 50
MESSAGE_MAX_LENGTH: Final = 1024

_NAME: Final = {"maxLength": 253}
_UID: Final = {"minLength": 1, "maxLength": 128}
_SETTLED: Final = ("eventName", "transitionName", "result")
# Each item is compared with the one of the same uid before. An item that was not there before is new.
_SETTLED_RULE: Final = Rule(
    " && ".join(f"self.{name} == oldSelf.{name}" for name in _SETTLED),
    "what is recorded of an event does not change",
)
_KEYED: Final[Mapping[str, Any]] = {
    "maxItems": ENTRIES_MAX,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["eventUID"],
}


def _entry_fields(path: str) -> dict[str, Field]:
    fields = {
        "eventUID": Field("The uid of the LifecycleEvent.", required=True, keywords=_UID),
        "eventName": Field("The name of the LifecycleEvent.", required=True, keywords=_NAME),
        "transitionName": Field("The LifecycleTransition, by name.", required=True, keywords=_NAME),
        "start": Field("The transition's start state.", keywords={"maxLength": rules.STATE_MAX_LENGTH}),
        "end": Field("The transition's end state.", keywords={"maxLength": rules.STATE_MAX_LENGTH}),
        "nodeUID": Field(
            "The uid of the node at the claim; another node of the same name has another.", keywords={"maxLength": 128}
        ),
        "driver": Field("The driver that carried it out.", keywords={"maxLength": 317}),
        "claimedBy": Field("Who carried it out, such as node/<name>.", keywords={"maxLength": 317}),
        "requestedBy": Field("The requester of the event."),
        "requestedBy.name": Field("The user, or the program.", required=True, keywords={"maxLength": 1024}),
        "requestedBy.source": Field(
            "How that is known: Admission is the user whose request created the event, as the API server recorded it; "
            "FieldManager is the program that created it, by its own word.",
            required=True,
            keywords={"enum": [str(source) for source in RequesterSource]},
        ),
        "requestTime": Field("When the event was created."),
        "claimTime": Field("When it was claimed."),
        "startTime": Field("When the driver had started."),
        "completionTime": Field("When it reached its terminal state."),
        "sequence": Field(
            "The resourceVersion of the finished event. Entries that completed in one second are sorted by it.",
            keywords={"minimum": 0},
        ),
        "result": Field("How it ended.", required=True, keywords={"enum": sorted(map(str, TERMINAL))}),
        "message": Field("What happened, for people to read.", keywords={"maxLength": MESSAGE_MAX_LENGTH}),
        **progress_fields("progress"),
        **pod_fields("pods"),
        "podsOmitted": Field("How many more pods there were.", keywords={"minimum": 0}),
    }
    return {f"{path}.{name}": field for name, field in fields.items()}


RECORD_FIELDS: Final[Mapping[str, Field]] = {
    "": Field("What the finished LifecycleEvents of the node of this name came to. It outlives them and the node."),
    "entries": Field("One entry per event, newest first.", required=True, keywords=_KEYED),
    "entries[]": Field("What one event came to.", rules=(_SETTLED_RULE,)),
    **_entry_fields("entries[]"),
    "droppedEntries": Field(
        "How many older entries were removed, for want of room or because their time was over.",
        keywords={"minimum": 0},
    ),
}
