"""The checkers: one file per invariant of the design, and one for each rule beside them.

A checker gets every durable change in commit order, and raises `Violation` when its rule is violated. Some check
requests that the server accepts (`requests`), and some check the end of the run. No checker changes anything.
"""
