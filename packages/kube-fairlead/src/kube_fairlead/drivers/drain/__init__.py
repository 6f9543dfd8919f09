"""The drain driver, `fairlead.dev/drain`: pods leave a node by eviction, and the node takes pods again.

Here belongs looking at one node and acting on its pods. What to do is decided in `lifecycle.drain`, by rules that the
command line shares. Nothing is remembered on disk: a driver that was killed looks at the node and goes on.
Before: `lifecycle.drain`, which decides. After: the agent, which tells the world.

    driver      the two transitions, node-drain and node-uncordon
    looking     the node, its pods and the disruption budgets, always up to date
    draining    the loop: look, plan, ask pods to go, tell how far it is
    notices     what is said about pods that cannot go: logs and Events
    metering    evictions, blocked pods and the time that they were blocked, in numbers
    asking      one request to go, by uid
    requesting  the same through EvictionRequest, where it is served
    previewing  what a drain would do, without doing it
    cordoning   the one bit of the Node that belongs to a drain
"""
