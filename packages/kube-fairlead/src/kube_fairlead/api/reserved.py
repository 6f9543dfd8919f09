"""The names Fairlead keeps for itself on the wire. Nothing else spells them out."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "ANNOTATION_API_APPROVED",
    "ANNOTATION_CORDONED_BY",
    "ANNOTATION_DRAIN_PREFIX",
    "ANNOTATION_GRACE_DEADLINE",
    "ANNOTATION_GRACE_REQUESTED",
    "ANNOTATION_GRACE_REQUEST_TIME",
    "ANNOTATION_GRACE_REQUEST_UID",
    "ANNOTATION_OFFERED_AT",
    "ANNOTATION_PLATFORM",
    "ANNOTATION_PREFERRED_HOLDER",
    "ANNOTATION_PREFERRED_HOLDER_READY",
    "ANNOTATION_PUBLISHED_BY",
    "ANNOTATION_REQUESTED_BY",
    "ANNOTATION_WINDING_UP",
    "API_UNAPPROVED",
    "CONDITION_DRAINED",
    "CONDITION_DRAIN_IN_PROGRESS",
    "CONDITION_GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS",
    "CONDITION_LIFECYCLE_TRANSITION",
    "CONDITION_MAINTENANCE_IN_PROGRESS",
    "CONDITION_MAINTENANCE_PLANNED",
    "DRIVER_DRAIN",
    "DRIVER_SHUTDOWN",
    "FINALIZER_CLAIMED",
    "LIFECYCLE_GROUP",
    "LIFECYCLE_GROUP_ALTERNATIVE",
    "LIFECYCLE_VERSION",
    "NAMESPACE_NODE_LEASE",
    "NODE_DRAIN",
    "NODE_SHUTDOWN",
    "NODE_UNCORDON",
    "STATES_TO_END_WITH",
    "STATES_TO_START_WITH",
    "Transition",
]

# The group of the lifecycle kinds is a setting. Kubernetes 1.37 has kinds of its own in the default group behind an
# alpha gate; a cluster that switches them on installs ours under the alternative.
LIFECYCLE_GROUP: Final = "lifecycle.k8s.io"
LIFECYCLE_GROUP_ALTERNATIVE: Final = "lifecycle.fairlead.dev"
LIFECYCLE_VERSION: Final = "v1alpha1"

# Set on an event from its claim until its terminal status is stored, whatever the group.
FINALIZER_CLAIMED: Final = "lifecycle.k8s.io/claimed"

DRIVER_DRAIN: Final = "fairlead.dev/drain"
DRIVER_SHUTDOWN: Final = "fairlead.dev/shutdown"


class Transition(NamedTuple):
    """A transition that Fairlead itself brings along."""

    name: str
    start: str
    end: str
    driver: str


# Admission enforces these. Only agents use a shutdown's states: controllers act on them. A drain or an uncordon
# may be another driver's, but under these names it has these states, and their order is the same everywhere.
NODE_SHUTDOWN: Final = Transition("node-shutdown", "shutdown-drain-started", "shutdown-drain-complete", DRIVER_SHUTDOWN)
NODE_DRAIN: Final = Transition("node-drain", "DrainStarted", "DrainComplete", DRIVER_DRAIN)
NODE_UNCORDON: Final = Transition("node-uncordon", "Uncordoning", "MaintenanceComplete", DRIVER_DRAIN)
STATES_TO_START_WITH: Final = (NODE_DRAIN.start, NODE_UNCORDON.start)
STATES_TO_END_WITH: Final = (NODE_DRAIN.end,)

# The Lease `<node>` in this namespace says who may claim for the node; the kubelet's own namespace is left alone.
NAMESPACE_NODE_LEASE: Final = "fairlead-node-lease"

# On a LifecycleEvent: the user whose request created it. Only the API server's admission may set it.
ANNOTATION_REQUESTED_BY: Final = "lifecycle.fairlead.dev/requested-by"
# On a LifecycleEvent: `drain.fairlead.dev/<flag>`, with the flags of kubectl drain.
# On a LifecycleTransition: for which driver an agent published it, and when an agent last said that it is offered.
ANNOTATION_PUBLISHED_BY: Final = "lifecycle.fairlead.dev/published-by"
ANNOTATION_OFFERED_AT: Final = "lifecycle.fairlead.dev/offered-at"
ANNOTATION_DRAIN_PREFIX: Final = "drain.fairlead.dev/"
# On a Node that Fairlead cordoned: the LifecycleEvent for which it did. A cordon without it is not Fairlead's.
ANNOTATION_CORDONED_BY: Final = "drain.fairlead.dev/cordoned-by"
# On a Node whose shutdown is over, until its conditions are reverted: since when.
ANNOTATION_WINDING_UP: Final = "shutdown.fairlead.dev/winding-up"
# On a custom resource that a stock API server deletes: the deadline of its grace period, RFC 3339, and the seconds of
# the request that set it. The deadline alone does not distinguish a forced deletion from one of a second.
ANNOTATION_GRACE_DEADLINE: Final = "grace.fairlead.dev/deadline"
ANNOTATION_GRACE_REQUESTED: Final = "grace.fairlead.dev/requested-seconds"
# Beside them: when that request was seen, which distinguishes it from a later one, and its uid in the AdmissionReview.
ANNOTATION_GRACE_REQUEST_TIME: Final = "grace.fairlead.dev/request-time"
ANNOTATION_GRACE_REQUEST_UID: Final = "grace.fairlead.dev/request-uid"
# On a Node: which cloud it runs on, for a node without a providerID.
ANNOTATION_PLATFORM: Final = "cloudprovider.kubernetes.io/platform"
# On a Lease: who should hold it next. The field for that is dropped by servers without CoordinatedLeaderElection.
ANNOTATION_PREFERRED_HOLDER: Final = "election.fairlead.dev/preferred-holder"
# Beside it: the preferred holder's answer, its own identity. A leader yields to a candidate that is alive only.
ANNOTATION_PREFERRED_HOLDER_READY: Final = "election.fairlead.dev/preferred-holder-ready"
# On a CRD in a *.k8s.io group, without which Kubernetes refuses it.
ANNOTATION_API_APPROVED: Final = "api-approved.kubernetes.io"
API_UNAPPROVED: Final = "unapproved, experimental-only"

# Node conditions: the proposal's, and those that Kubernetes 1.37 made well-known.
CONDITION_LIFECYCLE_TRANSITION: Final = "LifecycleTransition"
CONDITION_DRAIN_IN_PROGRESS: Final = "DrainInProgress"
CONDITION_DRAINED: Final = "Drained"
CONDITION_MAINTENANCE_PLANNED: Final = "MaintenancePlanned"
CONDITION_MAINTENANCE_IN_PROGRESS: Final = "MaintenanceInProgress"
CONDITION_GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS: Final = "GracefulNodeShutdownInProgress"
