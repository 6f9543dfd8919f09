"""Observability: request metrics as Kubernetes labels them, and the audit log.

Observers see every request and its response and change neither. No decision depends on a metric or a log line.
"""
