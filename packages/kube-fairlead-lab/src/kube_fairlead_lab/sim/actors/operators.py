"""Operators: other programs that use `kube_fairlead.election` alone and wait with `Term.pause`."""

from __future__ import annotations

from typing import Final

from kube_fairlead.election import Candidate, Leadership, LeadershipLost, Lock, NotLeading, Term, Timing
from kube_fairlead_lab.sim.checkers.leaders import Leaders
from kube_fairlead_lab.sim.environment import Actor, Environment, ProcessRun

__all__ = ["add_operator"]

_LOCK: Final = Lock("kube-system", "operator")
_TIMING: Final = Timing(lease_duration_seconds=30.0, renew_deadline_seconds=20.0, retry_period_seconds=5.0)
_PACE_SECONDS: Final = 3.0


def add_operator(environment: Environment, number: int, leaders: Leaders) -> Actor:
    """Add one replica of the operator."""
    name = f"operator-{number}"

    async def main(process_run: ProcessRun) -> None:
        identity = f"{name}_{process_run.number}"

        async def work(term: Term) -> None:
            with leaders.at_work(str(_LOCK), process_run.process):
                try:
                    while await term.pause(_PACE_SECONDS):
                        leaders.acts(str(_LOCK), identity)
                except NotLeading:
                    environment.counts["pauses that ended a term"] += 1

        candidate = Candidate(environment.client(process_run), _LOCK, identity=identity, timing=_TIMING)
        await Leadership(candidate, work, on_overrun=environment.exit_on_overrun(name)).run()

    return environment.add(name, main, allowed=(LeadershipLost, NotLeading))
