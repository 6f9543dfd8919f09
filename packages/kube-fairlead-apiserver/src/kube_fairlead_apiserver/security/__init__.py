"""Authentication, authorization and the server's keys.

Certificates and keys in the data folder (`pki`, `kubeconfig`), authentication (`authentication`, `tokens`,
`impersonation`), authorization (`rbac`, `node_authorizer`, `authorization`, `escalation`) and what a new cluster
allows (`bootstrap_policy`). Objects of the cluster arrive through injected lookups, so nothing here knows storage.
Every decision is made from data in memory and never waits.
"""
