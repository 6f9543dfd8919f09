"""The judges: one file per invariant of the design, and one for each promise beside them.

A checker hears of every durable change in commit order, and raises `Violation` when one breaks its rule. Some are also
asked once everything has calmed down. Nothing here ever acts.
"""
