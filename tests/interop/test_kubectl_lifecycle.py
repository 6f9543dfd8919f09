"""What kubectl shows of a transition while it is carried out, and after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.interop.conftest import Kubectl
from tests.spec.kep5683.conftest import admin, lifecycle_plane, make_site
from tests.spec.kep5683.site import Site, until

__all__ = ["admin", "lifecycle_plane"]  # fixtures

pytestmark = pytest.mark.kube


@pytest.fixture
def site(lifecycle_plane: ControlPlane, unique_name: Callable[[str], str]) -> Iterator[Site]:
    for made in make_site(lifecycle_plane, unique_name("site")):
        made.start_driver()
        made.start_agent()
        yield made


async def test_a_transition_as_kubectl_shows_it(
    site: Site, admin: RawApi, kubectl: Kubectl, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("event")
    event = f"""
apiVersion: lifecycle.k8s.io/v1alpha1
kind: LifecycleEvent
metadata:
  name: {name}
  annotations: {{ledger.example.com/hold: end}}
spec: {{transitionName: ledger, bindingNode: {site.node}}}
"""
    async with site.watching(admin) as story:
        said = await kubectl("create", "-f", "-", stdin=event)
        assert said.out == f"lifecycleevent.lifecycle.k8s.io/{name} created\n"
        uid = (await story.until(name, "held"))["metadata"]["uid"]
        await until(lambda: "called-end" in site.effects(uid))

        said = await kubectl("get", "lt", "ledger")
        assert said.lines[0].split() == ["NAME", "START", "END", "DRIVER", "SLA", "AGE"]
        assert said.lines[1].split()[:5] == ["ledger", "LedgerOpened", "LedgerClosed", "example.com/ledger", "10m"]
        said = await kubectl("get", "le", name)
        assert said.lines[0].split() == ["NAME", "TRANSITION", "NODE", "STATUS", "AGE"]
        assert said.lines[1].split()[:4] == [name, "ledger", site.node, "Claimed"]
        said = await kubectl("get", "le", "--field-selector", f"spec.bindingNode={site.node}", "-o", "name")
        assert said.lines == [f"lifecycleevent.lifecycle.k8s.io/{name}"]

        said = await kubectl("describe", "node", site.node)
        shown = next(line for line in said.lines if line.split()[:1] == ["LifecycleTransition"])
        assert shown.split()[1] == "True"
        assert shown.split()[-4:] == ["LedgerOpened", "Lifecycle", "Transition", "'ledger'"]
        said = await kubectl("delete", "le", name, "--wait=false")
        assert (await story.until(name, "held"))["metadata"]["name"] == name
        waiting = asyncio.ensure_future(kubectl("wait", "--for=delete", f"le/{name}", "--timeout=50s"))
        site.release(name)
        await waiting
        await story.until(name, "gone")
    # Deleted while it was claimed, it was run to its end first.
    assert story.seen[name] == ["Pending", "Claimed", "held", "Succeeded", "gone"]

    said = await kubectl("events", "--for", f"node/{site.node}", "-A", "--types=Normal")
    reasons = {line.split()[3] for line in said.lines[1:]}
    assert {"LifecycleClaimed", "LifecycleTransitionStarted", "LifecycleTransitionSucceeded"} <= reasons
