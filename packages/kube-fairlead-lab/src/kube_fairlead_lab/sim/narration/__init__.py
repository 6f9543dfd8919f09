"""A history in words: who did what at which virtual time, and which of it matters for a failure.

Here facts that were kept while a seed was played become lines for people. All of it runs after the seed is over, so
nothing here can change what happens in one; what is worth keeping is decided by `trace`, `write_log` and whoever acts.
"""
