from __future__ import annotations

from kube_fairlead.install import bundle
from kube_fairlead.install.installation import AGENT, DRAIN, Installation, ShutdownGrace
from kube_fairlead.install.own_fields_policy import node_fields


def test_what_others_need_comes_first() -> None:
    order = ["Namespace", "CustomResourceDefinition", "ServiceAccount", "DaemonSet", "Deployment"]
    kinds = [one["kind"] for one in bundle.manifests(Installation())]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)


def test_an_agent_that_sees_no_pods_out_neither_cordons_nor_taints() -> None:
    plain, full = (
        node_fields(plan) for plan in (Installation(), Installation(shutdown=ShutdownGrace(grace_period="60s")))
    )
    assert (plain[AGENT].cordon, plain[AGENT].taints, plain[AGENT].not_ready) == (False, frozenset(), False)
    assert (full[AGENT].cordon, full[AGENT].taints) == (
        True,
        frozenset({"shutdown.fairlead.dev/in-progress:NoSchedule"}),
    )
    assert plain[AGENT].annotations < full[AGENT].annotations
    assert plain[DRAIN] == full[DRAIN]
    assert set(plain) == {AGENT, DRAIN}
