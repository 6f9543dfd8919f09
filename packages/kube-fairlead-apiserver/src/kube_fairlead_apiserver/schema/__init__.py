"""Structural schemas: validation, defaults and pruning of objects.

Pure functions over plain JSON values and a compiled `model.SchemaNode`. No storage, no requests.
"""
