"""The node's agent: claims the events of one node, calls drivers for them, and writes the states to the Node.

Here belongs what only a process on the node can do: annotate the node's platform (`platform`), warn that the node does
not exist (`missing_node`), register the drivers of this machine, and run the claimant of the node (`agent`, `launch`).
How events are claimed and carried out belongs to `claimant`.
Before: the client that creates a LifecycleEvent. After: `drivers`, which the agent calls, and `controllers`, which
finish the events that an agent leaves.
"""
