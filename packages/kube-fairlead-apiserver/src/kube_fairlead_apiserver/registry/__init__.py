"""What the server serves, and by which rules.

A `resource.Resource` is one entry of discovery; its `strategy.Strategy` holds the rules of the kind (defaults, what a
client may set, what is valid, what can be selected by). Strategies are pure: they look at objects, never at storage
or requests.
"""
