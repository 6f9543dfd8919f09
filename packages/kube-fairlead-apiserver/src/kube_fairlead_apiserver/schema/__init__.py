"""Structural schemas: what an object of a kind may hold, and what the server makes of it.

Pure functions over plain JSON values and a compiled `model.Node`. No storage, no requests.
"""
