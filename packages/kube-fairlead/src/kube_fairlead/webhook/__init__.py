"""The shim that records deletion grace on stock Kubernetes, which drops it for custom resources.

A DELETE admission webhook: it is shown every delete of the resources it is registered for, and notes on the object
until when its clean-up may take, where `kube_fairlead.grace` finds it. Whether and what to note is a pure decision over
the table in `lifecycle.deletion`; here are the note, the HTTPS server and the manifests to register it.
It never refuses a delete, and it touches nothing but its own annotations.

Where it is registered for that too, it refuses evictions of another node's pods by a drain driver's token: a policy in
the API server cannot, because an eviction does not carry the pod.
Where it makes its certificates itself, `certificate_rotation` decides when, and `certificate_manager` stores them.
Before: `client`, `lifecycle`, `grace`. After: `cli`.
"""
