"""Subresources with their own behaviour, a file each. `handlers` maps them all.

The verbs serve plain subresources (status), which have no file here. Each handler takes one `verbs.call.Call`.
"""
