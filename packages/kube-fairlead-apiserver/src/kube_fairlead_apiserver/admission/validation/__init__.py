"""The rules for admission's own configuration: webhook configurations, policies and bindings.

Pure functions that the registry's strategies call. What a valid configuration then does is said elsewhere.
"""
