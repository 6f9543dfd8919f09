"""Carrying out the events of a node: what its agent and the central claimer have in common.

Here belongs what makes lifecycle decisions happen: the registry of drivers (`folder`, `plugins`, `directory`,
`contact`), the publishing of their transitions (`publishing`), the engine that reads the API, asks `lifecycle` what to
do next and does it (`engine`, `execution`, `writing`, `node_writer`, `reports`, `records`), and the Lease without which
none of it happens (`holding`, `identity`). It never decides: why something happens is in `lifecycle.decisions`. It
never does the work on a node either: that is a driver's. Which nodes there are to look after is for the component that
brings them.
Before: whoever creates a LifecycleEvent. After: `drivers`, which it calls; `agent` and `controllers`, which run it.
"""
