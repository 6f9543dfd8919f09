"""The agent as a Windows service, and its calls of the service control manager.

Here belongs what only Windows has: the states of a service and its controls (`control`, pure), the structures and calls
of the service control manager (`structures`, `scm`), this process as a service (`service`), the processes of a service
(`processes`), protected folders (`folders`), the order of preshutdown notifications (`shutdown_order`, pure) and the
registry that stores it (`registry`). Every module can be imported on any system; Windows is called only when used.
What a shutdown means for pods belongs to `agent.shutdown`, which is the same on every system.
Before: the service control manager. After: `agent.shutdown.preshutdown_listener`.
"""
