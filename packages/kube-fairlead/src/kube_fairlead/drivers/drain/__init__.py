"""The drain driver, `fairlead.dev/drain`: it evicts the pods of a node, and uncordons the node again.

Here belongs watching one node and acting on its pods. What to do is decided in `lifecycle.drain`, by rules that the
command line shares. Nothing is kept on disk: a restarted driver reads the node and resumes.
Before: `lifecycle.drain`, which decides. After: the agent, which publishes the result.

    driver             the two transitions, node-drain and node-uncordon
    node_watch         the node, its pods and the disruption budgets, kept up to date by watches
    node_drain         the loop: read, plan, evict, report progress
    evictor            one eviction, by uid
    eviction_requests  the same through EvictionRequest, where it is served
    notices            logs and Events about blocked pods
    drain_metrics      counts of evictions and blocked pods, and the time that pods were blocked
    drain_preview      what a drain would do, without doing it
    node_cordon        `spec.unschedulable` of the Node
"""
