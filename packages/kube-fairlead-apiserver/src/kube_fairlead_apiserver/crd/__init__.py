"""CustomResourceDefinitions: what makes one acceptable, and what the server makes of an accepted one.

Pure functions over plain JSON: defaults, validation, names and conditions, conversion, printing. Reading, writing
and serving belong to the registry and the verbs.
"""
