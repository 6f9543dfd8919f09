"""The cluster's controllers of Fairlead: work that belongs to no node.

Here belong controllers that watch lifecycle objects from outside their nodes, each in a file of its own, each run by a
manager under its lock. What is right is decided in `lifecycle`; here it is done. How events are carried out belongs to
`claimant`, which the claimer runs for nodes without an agent; nothing of a driver or a cloud belongs here.
Before: `agent`, which carries events out on their node. After: nothing; what is collected is gone.
"""
