"""The cloud controller manager: it brings the nodes of one cloud in line with that cloud, and touches no others.

Here belong the ownership of nodes (`ownership`, pure, used by all), what to do about a node, a route or a
load balancer (`decisions`, pure), the controllers that carry it out, what a cloud must be able to answer (`provider`)
and the providers that come along. A provider of another author is a plug-in (`registry`): it is looked at once when it
is made (`checked`), and every call to it goes through one seam (`calls`), where answers are held against the protocol.
Nothing here writes to a node, or acts in the cloud for one, that is not Owned.
Before: `manager`, `client`. After: `cli`.
"""
