"""The served resources and their strategies.

A `resource.Resource` is one entry of discovery; its `strategy.Strategy` has the rules of the kind (defaults,
validation, immutable fields, selectable fields). Strategies are pure: they use objects, never storage or requests.
"""
