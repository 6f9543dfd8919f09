"""The whole system in one process, on virtual time, under seeded faults.

Everything above the outermost I/O is the product's code: the API server's registry, storage and deletion code, the
agents, the managers, the cloud controllers, their clients, elections, caches and queues. The simulation replaces the
event loop (`loop`), clocks (`clock`), the network between a component and the API server (`network`), the links to
drivers and clouds (`links`), the server's disk (`disk`), machines and clouds (`actors`). The components do not notice.

The same seed gives the same history. `action_plan` draws the actions of a seed, `fault_injector` carries them out,
`checkers` check every change against the design's invariants, `runner.run` plays a seed and returns its outcome, and
`narration` describes what led to a failure.
"""
