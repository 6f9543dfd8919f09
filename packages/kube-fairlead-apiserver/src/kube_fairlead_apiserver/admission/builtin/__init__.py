"""The built-in admission plugins, a file each; `admission.plugins` has their order.

Only plugins that clients of Kubernetes depend on are here. `admission.plugins` lists what is left out, and why.
"""
