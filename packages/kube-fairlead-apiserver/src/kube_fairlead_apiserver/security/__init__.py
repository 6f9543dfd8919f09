"""Authentication, authorization and the server's keys.

Certificates and keys in the data folder (`pki`, `kubeconfig`), authentication (`authentication`, `tokens`,
`impersonation`), authorization (`rbac`, `node_authorizer`, `authorization`, `escalation`) and the default
roles (`bootstrap_policy`). Objects of the cluster come from injected lookups, so nothing here knows storage. Every
decision uses data in memory and never waits.
"""
