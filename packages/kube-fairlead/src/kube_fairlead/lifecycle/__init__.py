"""Pure decisions of Fairlead, over plain data: what may happen to an event, a pod or a node.

Here belong claim states and their legal moves, deadlines, the deletion table and every other rule.
Nothing here reads a clock, does I/O or keeps state. The caller passes in the facts and carries out the decision.
Before: `api`, which defines the kinds. After: every component that acts.
"""
