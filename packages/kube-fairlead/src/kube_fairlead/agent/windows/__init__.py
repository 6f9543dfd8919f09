"""The agent as a Windows service, and what it asks of the service control manager.

Here belongs what only Windows has: the states of a service and what each control does to them (`control`, pure), the
structures and calls of the service control manager (`structures`, `scm`), this process as a service (`service`), the
order in which services hear that the machine goes down (`order`, pure), and the registry where that is kept
(`registry`). Every module can be imported anywhere; what calls Windows does so when it is used.
What a shutdown means for pods belongs to `agent.shutdown`, which is the same on every system.
Before: the service control manager. After: `agent.shutdown.windows`, the ear.
"""
