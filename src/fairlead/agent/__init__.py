"""The node's agent: claims the events of one node, has drivers carry them out, and says on the Node how far they are.

Here belongs what makes lifecycle decisions happen: the registry of drivers (`folder`, `plugins`, `directory`), the
publishing of their transitions (`publishing`), and the engine that reads the API, asks `lifecycle` what to do next, and
does it (`engine`, `execution`, `writing`). It never decides: whoever wants to know why something happens reads
`lifecycle.decisions`. It never does the work on a node either: that is a driver's.
Before: whoever creates a LifecycleEvent. After: `drivers`, which it calls, and `controllers`, which look after what
agents leave behind.
"""
