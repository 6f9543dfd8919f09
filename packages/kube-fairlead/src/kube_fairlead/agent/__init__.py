"""The node's agent: claims the events of one node, has drivers carry them out, and says on the Node how far they are.

Here belongs what only a process on the node itself can do: say which cloud the node runs on (`platform`), tell that
there is no such node (`presence`), register the drivers of this machine, and be one claimant (`claimant`) from first to
last (`agent`, `launch`). How events are claimed and carried out belongs to `claimant`.
Before: whoever creates a LifecycleEvent. After: `drivers`, which it calls, and `controllers`, which look after what
agents leave behind.
"""
