"""The lab's commands of `fairlead`: one module per command, found by the entry point group `fairlead.commands`.

A command reads its flags and starts what the lab has. What it starts never belongs here.
"""
