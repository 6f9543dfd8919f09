"""Draining a node, as decisions: which pods go, in which order, what to do next, and what to tell people.

Here belong kubectl drain's filters and options, and everything that a drain has to decide between two looks at the
node. Pure, as all of `lifecycle`: the driver (`drivers.drain`) looks and acts, the command line asks and shows.

    options     what the user wants: kubectl's flags
    filters     which pods go, which stay, which make the drain refuse
    budgets     which disruption budgets cover a pod, and whether they would let it go
    attempts    what came of asking a pod to go
    planning    whom to ask to go now, and when to look again
    blockers    what holds the drain up, in words and in numbers
    cordons     whose cordon it is, and who may undo it
    rollout     which nodes may be taken out of service at the same time
"""
