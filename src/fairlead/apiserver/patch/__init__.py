"""How a patch becomes an object: JSON patch, merge patch, strategic merge patch and server-side apply.

Pure functions over plain JSON. They never change what they are given: the result shares every untouched part
with the input, so the stored object stays what it was. Errors are `api.errors` with the words Kubernetes uses.
No storage, no requests, no defaulting and no validation of the result: that is the verbs' work, after this.
"""
