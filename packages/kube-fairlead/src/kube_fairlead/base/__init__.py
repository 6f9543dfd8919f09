"""The outside world, injectable: clock, randomness, ids, environment, files, memory, tasks, logs, metrics, RPC, gates.

Commitments belong to tasks: they say which of them must not be cut off any more.
Only modules in this package read the time, randomness or the environment, or start a task; everything above takes
them by constructor, so that a test or the simulation can replace them. Nothing here knows Kubernetes. Importing any
of these modules stays cheap, because the node agent pays for it on every node.
Before: nothing. After: `api`, and every other package.
"""
