"""Leader election by Lease, and what a leader may do while it leads.

Here belongs everything between a Lease and the work that only its holder may do: the fields and rules of the Lease
(`election_record`, `lease`: pure), watching and renewing it (`candidate`), terms that start, end in order and leave no
task running (`term`, `leadership`), the check before each write (`guard`), the API server's own check (`fence`), and
kopf operators as that work (`kopf_operator`, imported only where kopf is installed).
Fields and rules are those of client-go, so that Go and Python candidates share one Lease. What the work does never
belongs here.
Before: `client`. After: `manager`, which runs controllers as that work.

    async def work(term: election.Term) -> None:
        while await term.pause(60):
            ...

    async with client.connect() as api_server:
        await election.lead(api_server, election.Lock("shop", "price-updater"), work)
"""

from kube_fairlead.election.candidate import Candidate
from kube_fairlead.election.election_record import LeaderElectionRecord, Timing
from kube_fairlead.election.errors import ElectionError, LeadershipLost, NotLeading, TermOverrun
from kube_fairlead.election.guard import guarded
from kube_fairlead.election.leader_elector import Handle, lead, new_identity
from kube_fairlead.election.leadership import Leadership, TermObserver, end_process
from kube_fairlead.election.lease import Lock
from kube_fairlead.election.term import Rules, StopReason, Term

__all__ = [
    "Candidate",
    "ElectionError",
    "Handle",
    "LeaderElectionRecord",
    "Leadership",
    "LeadershipLost",
    "Lock",
    "NotLeading",
    "Rules",
    "StopReason",
    "Term",
    "TermObserver",
    "TermOverrun",
    "Timing",
    "end_process",
    "guarded",
    "lead",
    "new_identity",
]
