"""Controllers that run inside the server, so that one process is a whole control plane.

Here belongs the part of kube-controller-manager that the API itself depends on: garbage collection of dependents,
termination of namespaces, status of disruption budgets, default service accounts, custom resource definitions.
Workloads, nodes and scheduling do not. Each controller is a `loop.Controller`: it maps changes to keys and reconciles
one key at a time.
"""
