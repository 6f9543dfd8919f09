from __future__ import annotations

import pickle

from kube_fairlead_lab.sim import campaign
from kube_fairlead_lab.sim.environment import Violation
from kube_fairlead_lab.sim.scenario import Scenario

TINY = Scenario(nodes=1, managers=1, chaos_minutes=0.5, events_per_minute=10.0)


def test_seeds_run_in_other_processes_and_are_summed_up() -> None:
    report = campaign.play(21, TINY, seeds=2, jobs=2)
    assert (report.seeds, report.failures) == (2, [])
    assert report.counts["finished events"] > 0
    assert "2 seeds from 21: 0 failed" in str(report)


def test_a_violation_can_be_pickled() -> None:
    violation = pickle.loads(pickle.dumps(Violation("9", "too late")))
    assert (violation.rule, str(violation)) == ("9", "9: too late")
