"""Request budgets per user: which request runs now, which one waits, which one is refused.

Here belong the decisions (`queues` for what requests hold, `turns` for the time of the event loop; both pure), what
carries them out (`filter`, `pacer`) and what is counted of it (`metrics`). The user is known before; what the request
may do is decided after. Before: authentication and impersonation. After: authorization and the verb.
"""
