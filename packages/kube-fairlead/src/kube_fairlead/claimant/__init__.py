"""Carry out the events of a node: what the agent and the central claimer have in common.

Here belong the registry of drivers (`socket_folder`, `plugins`, `driver_directory`, `driver_probe`, `channels`), their
published transitions (`transition_publisher`), the engine that reads the API server, asks `lifecycle` for the next step
and carries it out (`view`, `engine`, `driver_calls`, `driver_progress`, `event_writer`, `node_writer`,
`record_writer`, `event_recorder`), and the Lease that the engine needs (`leased_engine`, `lease_owner`,
`lease_namespace`, `identity`).
Nothing here decides: the reason of a step is in `lifecycle.decisions`. A driver does the work on a node. The component
that uses this package knows for which nodes to claim.
Before: the client that creates a LifecycleEvent. After: `drivers`, which it calls; `agent` and `controllers`,
which run it.
"""
