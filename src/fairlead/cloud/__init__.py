"""The cloud controller manager: it brings the nodes of one cloud in line with that cloud, and touches no others.

Here belong the question whose node it is (`ownership`, pure, asked by all), what to do about a node, a route or a
load balancer (`decisions`, pure), the controllers that carry it out, what a cloud must be able to answer (`provider`)
and the providers that come along. A provider of somebody else's is a plug-in: see `registry`.
Nothing here writes to a node, or acts in the cloud for one, that is not Owned.
Before: `manager`, `client`. After: `cli`.
"""
