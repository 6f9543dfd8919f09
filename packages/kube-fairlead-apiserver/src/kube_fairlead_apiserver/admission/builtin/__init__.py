"""The admission plugins that are always there, a file each; `admission.plugins` puts them in order.

Only what clients of Kubernetes rely on is here. What is left out, and why, is said in `admission.plugins`.
"""
