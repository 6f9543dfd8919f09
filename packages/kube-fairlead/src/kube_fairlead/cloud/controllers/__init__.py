"""The four controllers of a cloud controller manager. They watch, call `decisions`, and carry the decisions out.

One file each: nodes are initialised and reconciled, nodes follow their machines, routes follow nodes, load balancers
follow Services. None decides whose node it is, none writes to a node but through `node_writer`, and every call to the
cloud goes through `calls`.
"""
