"""Validation of admission's own configuration: webhook configurations, policies and bindings.

Pure functions that the registry's strategies call. They do not define what a valid configuration does.
"""
