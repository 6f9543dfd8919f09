"""What the server does by itself, so that one process is a whole control plane.

Here belongs the part of kube-controller-manager that the API's own promises rest on: garbage collection of dependents,
the end of namespaces, the status of budgets, default accounts, aggregated roles, custom resource definitions.
Workloads, nodes and scheduling do not. Each housekeeper is a `loop.Housekeeper`: it hears of changes at once and puts
things right one key at a time.
"""
