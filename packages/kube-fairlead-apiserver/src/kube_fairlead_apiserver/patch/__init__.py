"""How a patch becomes an object: JSON patch, merge patch, strategic merge patch and server-side apply.

Pure functions over plain JSON. They never change what they are given: the result shares every untouched part
with the input, so the stored object stays what it was. Errors are `api.errors` with the words Kubernetes uses.
No storage, no requests, no defaulting and no validation of the result: that is the verbs' work, after this.

Also here, since patches need them most: how deep JSON may nest (`depth`) and how many values it may hold (`values`).
Request bodies of other kinds are held to the same bounds. Every bound is checked before what it guards is built.
"""
