"""The checkers: one file per invariant of the design, and one for each promise beside them.

A checker hears of every durable change in commit order, and raises `Violation` when one breaks its rule. Some hear what
the server grants instead (`granted`), and some are asked once everything has calmed down. Nothing here ever acts.
"""
