"""Terminate pods through the Container Runtime Interface of containerd or CRI-O.

Here belong the calls (`calls`), preStop hooks (`hooks`), and the `PodRuntime` made of them (`runtime`). The caller
decides when a pod ends and how long that may take. Nothing here starts a container.
"""
