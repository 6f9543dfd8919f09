"""Storage of objects: a durable log of changes, and the memory that serves reads and watches from it.

`interface.Log` is the part that differs between disks (SQLite, memory, simulation). `store.Store` is everything else:
revisions, optimistic concurrency, history, watches. It knows keys, bytes, labels and fields, never kinds.
"""
