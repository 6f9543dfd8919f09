"""The agent's part of a node shutdown: it terminates pods in order and in time, and a restart does not lose a shutdown.

The operating system announces the shutdown to a listener (`logind_listener`, `preshutdown_listener`). The state is on
disk (`state_file`, `progress`, `pod_cache`), and the shutdown lock outlives the agent's process (`lock_store`,
`lock_supervisor`). Pods are terminated by `pod_terminator` through a `pod_runtime`; `pod_results` and `pod_writer`
store how each ended. `status_reporter` and `status_writer` write the Node's conditions. `kubelet_watch`,
`systemd_kubelet` and `windows_kubelet` handle the kubelet beside the agent. `manager` runs all of
them. `agent.shutdown_driver` is the driver of the shutdown's event. `lifecycle.shutdown_*` decides what happens when;
nothing here decides it again.
Before: the operating system that shuts down. After: `controllers.shutdown_observer`, for a node that does not return.
"""
