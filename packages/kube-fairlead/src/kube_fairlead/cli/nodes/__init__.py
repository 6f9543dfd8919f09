"""What the commands that act on nodes share: drain, uncordon, maintain, and the drain driver's flags.

Here belongs asking for a transition by creating a LifecycleEvent, following it to its end, and showing that in a
terminal. Nothing here evicts, cordons or claims: that happens on the node, whether anybody watches or not.

    flags       the flags of kubectl drain, and which nodes are meant
    asking      one event for one node: the one under way, or a new one
    following   what becomes of an event
    carrying    one transition of one node, from the request to its end
    showing     lines for a log, a live view for a terminal
    rolling     several nodes, not too many at once
    maintaining drained, worked on, back in service
"""
