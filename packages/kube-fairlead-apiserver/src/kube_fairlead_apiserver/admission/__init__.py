"""Admission: plugins that may change or reject a write after authorization, before it is validated and stored.

The order is one list in `plugins`. A plugin sees one `interface.Operation` and answers by changing its object or
raising an API error. Webhooks and policies are plugins like any other. Nothing here writes to the store.
"""
