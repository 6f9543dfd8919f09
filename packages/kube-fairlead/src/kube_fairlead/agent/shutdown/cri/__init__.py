"""Ending pods through the Container Runtime Interface, as containerd and CRI-O serve it.

Here belong the calls (`calls`), running preStop hooks (`hooks`), and the `PodRuntime` made of them (`runtime`). When a
pod is to end, and how long it may take, comes from outside. No container is ever started here.
"""
