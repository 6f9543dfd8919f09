"""Decisions of a node drain: which pods to evict, in which order, when to retry, and what to report.

Here belong kubectl drain's filters and options, and every decision of a drain between two observations of the node.
Pure, as all of `lifecycle`: the driver (`drivers.drain`) observes and acts, the command line reads flags and prints.

    options       what the user requests: kubectl's flags
    filters       which pods are deleted, which are skipped, which make the drain fail
    budgets       which disruption budgets cover a pod, and whether they allow its eviction
    attempts      the result of an eviction request
    planner       which pods to evict now, and when to check again
    blockers      what blocks the drain, as messages and as numbers
    pod_progress  the state of each pod, for the event's status
    cordons       who cordoned a node, and who may uncordon it
    rollout       which nodes may be unavailable at the same time
"""
