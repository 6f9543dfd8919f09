"""Observability: request metrics as Kubernetes labels them, and the audit log.

Observers see every request and its answer and change neither. A scrape or a log line never decides anything.
"""
