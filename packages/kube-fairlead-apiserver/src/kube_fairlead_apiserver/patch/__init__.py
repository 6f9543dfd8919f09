"""Applies patches to objects: JSON patch, merge patch, strategic merge patch and server-side apply.

Pure functions over plain JSON. They never change their arguments: the result shares every unchanged part with the
input, so the stored object stays as it is. Errors are `api.errors` with Kubernetes' texts. There is no storage, no
request, no defaulting and no validation of the result here; the verbs do that afterwards.

The limits on the depth (`depth_limit`) and the number of values (`value_limit`) of JSON are here too, because patches
need them most. Other request bodies have the same limits. Every limit is checked before the server builds what it
limits.
"""
