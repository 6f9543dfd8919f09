"""Fairlead: graceful lifecycle for Kubernetes.

Nodes, leaders, owners and custom resources move from one state to the next without anything snagging.
The layers, from the bottom up, are listed in ARCHITECTURE.md; imports point downward only.
"""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
