"""A Kubernetes-compatible API server over SQLite: the embedded control plane.

Here belongs everything that answers a Kubernetes API request: storage, registry, admission, authentication,
authorization, discovery. It is the one place where graceful deletion of custom resources is carried out (the
table itself is `lifecycle.deletion`). What happens because of an object, on a node or in a cloud, never belongs here.
Before: a client's request. After: every watcher of what it changed.
"""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
