"""What a cluster needs so that the components run in it, as typed values and manifests.

Here belong the choices of an installation (`installation`, `cloud_managers`), the service accounts with the rights that
the components' code uses (`accounts`), the admission policies (`own_node_policy`, `own_fields_policy`,
`requester_policy`, and those that `election` and `cloud` bring), the workloads (`deployments`), all manifests in the
order in which they are applied (`bundle`), and the removal of an installation (`removal`). Nothing here parses flags or
writes to a terminal. Components never create any of these objects themselves.
Before: the components. After: the command line, which prints the manifests.
"""
