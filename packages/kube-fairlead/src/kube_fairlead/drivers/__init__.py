"""Lifecycle drivers: the programs on a node that carry out transitions.

Here belong the drivers of Fairlead, a folder each, and the SDK (`sdk`) that serves a driver written as one class. A
driver does its work and reports progress. It never claims an event and never writes a Node condition or the status of
an event: the agent does. Agent and driver communicate through `driverapi` only.
Before: `claimant`, which calls. After: nothing; a driver acts on the node and its pods.
"""
