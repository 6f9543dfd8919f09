"""HTTP: requests and responses as values, the server that reads and writes them, and the ASGI interface.

Nothing here knows Kubernetes kinds. All handlers can be called without a socket.
"""
