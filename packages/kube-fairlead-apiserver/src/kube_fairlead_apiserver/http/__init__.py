"""HTTP as the API server sees it: requests and responses as values, and the ASGI seam that turns bytes into them.

Nothing here knows Kubernetes kinds. Everything behind this package can be called without a socket.
"""
