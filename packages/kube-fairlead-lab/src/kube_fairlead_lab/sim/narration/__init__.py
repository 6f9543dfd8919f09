"""Describes a history: which actor did what at which virtual time, and which entries matter for a failure.

It turns the facts of a run into lines of text. It runs after the seed is finished, so it cannot change the run.
`trace`, `write_log` and the actors decide which facts are recorded.
"""
