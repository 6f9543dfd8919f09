"""What may happen: the pure decisions of Fairlead, over plain data.

Here belong states and their legal moves, deadlines, the deletion table: every question that has one right answer.
Nothing here reads a clock, talks to anything or keeps state; the caller brings the facts and carries the answer out.
Before: `api`, which says what exists. After: every component that acts.
"""
