"""The machine goes down: its pods end in order and in time, and no restart of the agent makes anybody forget it.

Here belongs what happens on the node between the first word of a shutdown and its end: the ears that hear it (`linux`,
`windows`), the memory that outlives this process (`memory`, `course`, `podcache`), and the lock that does
(`lockkeeping`, `holding`), ending pods (`conducting`, and its runtimes behind `ending`), what became of each
(`accounts`), telling the API (`reporting`, `recording`), the kubelet beside it (`kubelet`, `kubelet_watch`,
`kubelet_back`), and the keeper who sees to all of that (`keeper`). What is to be done when, and in which words, is
decided in `lifecycle.shutdown_*`; nothing here decides it again. The driver that the claimant calls for the event of a
shutdown is `agent.shutdown_driver`.
Before: the system that announces its end. After: `controllers.shutdown_observer`, which sees the end from elsewhere.
"""
