"""The whole system in one process, on virtual time, under seeded bad luck.

Everything above the outermost I/O is the real thing: the API server's registry, storage and deletion code, the agents,
the managers, the cloud controllers, their clients, elections, caches and queues. Replaced are the event loop
(`loop`), clocks (`clock`), the network between a component and the API server (`network`), the links to drivers and
clouds (`links`), the disk under the server (`disk`), drivers' machines and clouds (`actors`). Nothing in the components
knows.

One seed is one history. `checkers` hold it against the design's invariants while it happens; `runner.run` plays a seed
and says how it ended; `narration` makes words of what led to it.
"""
