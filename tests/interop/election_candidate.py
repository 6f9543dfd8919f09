"""A candidate of the official client's leader election: `python election_candidate.py LEASE NAMESPACE IDENTITY`.

A process of its own, because such a candidate never stops by itself.
"""

from __future__ import annotations

import sys
from typing import Any

from kubernetes import config
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock import leaselock

# These parts of the client have no types.
settings: Any = config
elections: Any = leaderelection
configs: Any = electionconfig
locks: Any = leaselock


def lead() -> None:
    print("leading", flush=True)  # noqa: T201 - what its test reads


def stop() -> None:
    print("stopped", flush=True)  # noqa: T201 - what its test reads


if __name__ == "__main__":
    settings.load_kube_config()
    candidate = configs.Config(
        locks.LeaseLock(*sys.argv[1:]),
        lease_duration=4,
        renew_deadline=3,
        retry_period=1,
        onstarted_leading=lead,
        onstopped_leading=stop,
    )
    elections.LeaderElection(candidate).run()
