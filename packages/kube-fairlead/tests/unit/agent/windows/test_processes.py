from __future__ import annotations

import pytest

from kube_fairlead.agent.windows.processes import Process, tree_of

NSSM, KUBELET, PLUGIN, OTHER = (
    Process(10, 1, 100, "nssm.exe"),
    Process(20, 10, 200, "kubelet.exe"),
    Process(30, 20, 300, "plugin.exe"),
    Process(40, 1, 150, "containerd.exe"),
)


def test_a_wrapper_comes_before_its_child_and_that_before_its_own() -> None:
    assert tree_of(10, [PLUGIN, OTHER, KUBELET, NSSM]) == [NSSM, KUBELET, PLUGIN]


def test_a_process_that_is_not_there_has_no_tree() -> None:
    assert tree_of(99, [NSSM, KUBELET]) == []


@pytest.mark.parametrize("stranger", [Process(50, 10, 50, "older.exe"), Process(10, 10, 100, "itself.exe")])
def test_a_number_that_is_used_again_makes_no_family(stranger: Process) -> None:
    """The parent of the older process has ended; another process has its number now."""
    found = tree_of(10, [stranger, KUBELET] if stranger.process_id == 10 else [NSSM, KUBELET, stranger])
    assert [one.process_id for one in found] == [10, 20]
