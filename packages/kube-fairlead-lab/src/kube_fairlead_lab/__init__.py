"""The lab: what tries Fairlead and operators out, without a cluster.

Here belong the simulation, simulated nodes, the demo's scenes, and control planes for tests with their pytest plugin.
It may use the product and the embedded API server; neither of them may use the lab.
"""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
