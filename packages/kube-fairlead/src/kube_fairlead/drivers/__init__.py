"""Lifecycle drivers: what really happens to a node.

Here belong the drivers that Fairlead brings along, a folder each, and the SDK (`sdk`) that makes a driver of any
one small class. A driver does its work and says how far it has come; it never claims an event, writes a Node condition
or an event's status: that is the agent's, whom it meets only through `driverapi`.
Before: `agent`, which calls. After: nothing; this is where a transition takes place.
"""
