"""Request budgets per user: which request runs now, which one waits, which one is refused.

Here belongs the decision (`queues`, pure), the filter that carries it out (`filter`) and what is counted of it. Who the
user is was settled before; what the request may do is settled after. Before: authentication and impersonation. After:
authorization and the verb.
"""
