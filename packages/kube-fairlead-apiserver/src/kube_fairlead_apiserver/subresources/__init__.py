"""Subresources with a behaviour of their own: a file each. `handlers` maps them all.

Plain ones (status) are served by the verbs and have no file here. Each handler takes one `verbs.call.Call`.
"""
