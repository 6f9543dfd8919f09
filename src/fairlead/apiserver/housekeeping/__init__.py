"""What the server does by itself, so that one process is a whole control plane.

It is the part of kube-controller-manager that the API's own promises rest on. Here belong garbage collection of dependents, the end of namespaces, budgets' status, default accounts, aggregated
roles and custom resource definitions: what clients expect to just happen. Workloads, nodes and scheduling never
belong here. Each housekeeper is a `loop.Housekeeper`: it hears of changes at once and puts things right one key at a
time.
"""
