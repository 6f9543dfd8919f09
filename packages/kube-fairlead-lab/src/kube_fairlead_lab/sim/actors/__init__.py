"""The actors of the simulation: each file starts one kind of process with the real component inside.

Here belong adapters between a component and the simulated environment, and the users, machines and clouds around it.
Faults and checks never do: see `fault_injector` and `checkers`.
"""
