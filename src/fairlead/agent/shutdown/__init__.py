"""The machine goes down: its pods end in order and in time, and no restart of the agent makes anybody forget it.

Here belongs what happens on the node between the first word of a shutdown and its end: the ears that hear it (`linux`),
the memory that outlives this process (`memory`, `podcache`), ending pods (`ending`, and its runtimes `cri` and
`hollow`), telling the API (`recording`), and the keeper who conducts all of that (`keeper`). What is to be done when,
and in which words, is decided in `lifecycle.shutdown_*`; nothing here decides it again.
Before: the system that announces its end. After: `controllers.shutdown_observer`, which sees the end from elsewhere.
"""
