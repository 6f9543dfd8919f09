"""CustomResourceDefinitions: their validation, and the kinds that they define.

Pure functions over plain JSON: defaults, validation, names, conditions, printer columns. The registry and the verbs
read, write and serve objects.
"""
