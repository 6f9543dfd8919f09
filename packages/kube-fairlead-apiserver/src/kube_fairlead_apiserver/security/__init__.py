"""Who may come in, and what they may do.

Certificates and keys in the data folder (`pki`, `kubeconfig`), who is asking (`authentication`, `tokens`,
`impersonation`), what they may do (`rbac`, `node_authorizer`, `authorization`, `escalation`) and what a new cluster
allows (`bootstrap_policy`). Objects of the cluster arrive through injected lookups, so nothing here knows storage.
Every decision is made from data in memory and never waits.
"""
