"""Who is on the environment: each file starts one kind of process with the real component inside.

Here belong the places where a component meets the simulated world, and the people and machines around it. What goes
wrong, and whether it may, never does: see `fault_injector` and `checkers`.
"""
