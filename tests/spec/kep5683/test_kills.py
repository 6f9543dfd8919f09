"""Processes that are killed with -9 while they work, and what the next ones make of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.deadly_proxy import When, deadly_proxy
from tests.spec.kep5683.fleet import CASES
from tests.spec.kep5683.site import NODES, Site, condition, until

ENDED_WELL = ["Pending", "Claimed", "held", "Succeeded", "gone"]
ONE_OF_THEM = (0, "after")  # the claim is stored, and its claimant does not live to hear so
RECORDS = "/apis/lifecycle.k8s.io/v1alpha1/nodelifecyclerecords"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/fairlead-node-lease/leases"


def is_step(method: str, path: str) -> bool:
    """The same requests as `test_crashes.is_step`."""
    kinds = ("/lifecycleevents", "/nodes/", "/nodelifecyclerecords")
    return method != "GET" and any(kind in path for kind in kinds)


async def test_the_agent_and_its_driver_are_killed_while_they_work(
    site: Site, admin: RawApi, unique_name: Callable[[str], str]
) -> None:
    """The agent during Start, then the driver; in another event the agent during End, then the driver."""
    driver, agent = site.start_driver(), site.start_agent()
    async with site.watching(admin) as story:
        for step in ("start", "end"):
            name = unique_name("event")
            uid = (await site.ask(admin, name, hold=step))["metadata"]["uid"]
            await until(lambda uid=uid, step=step: f"called-{step}" in site.effects(uid))  # type: ignore[misc] # bound
            for victim in (agent, driver):
                called = len(site.effects(uid))
                victim.kill()
                victim.start()
                # Whoever lived on, or came back, has the driver called again.
                await until(lambda uid=uid, called=called: len(site.effects(uid)) > called)  # type: ignore[misc] # bound
            site.release(name)
            await story.until(name, "gone")
            assert story.seen[name] == ENDED_WELL
            effects = [effect for effect in site.effects(uid) if not effect.startswith("called")]
            assert effects == ["start", "end"]


@pytest.mark.parametrize(
    ("number", "when"), [pytest.param(*case, marks=() if case == ONE_OF_THEM else pytest.mark.long) for case in CASES]
)
async def test_the_agent_is_killed_before_and_after_each_single_write(
    site: Site, admin: RawApi, unique_name: Callable[[str], str], number: int, when: When
) -> None:
    name = unique_name("event")
    site.start_driver()
    async with deadly_proxy(site.plane, site.folder) as proxy, site.watching(admin) as story:
        count = 0

        def fate(method: str, path: str, moment: str) -> bool:
            nonlocal count
            count += is_step(method, path) and moment == when
            return is_step(method, path) and moment == when and count == number + 1

        proxy.fate = fate
        agent = site.start_agent(kubeconfig=proxy.kubeconfig)
        proxy.kill = agent.kill
        uid = (await site.ask(admin, name))["metadata"]["uid"]
        await until(lambda: not agent.running)
        site.start_agent("agent-again")
        await story.until(name, "gone")
    assert story.seen[name] == ENDED_WELL
    effects = [effect for effect in site.effects(uid) if not effect.startswith("called")]
    assert effects == ["start", "end"]
    assert condition((await admin.get(site.node_path)).expect(200))["reason"] == "LedgerClosed"
    record = (await admin.get(f"{RECORDS}/{site.node}")).expect(200)
    assert [(entry["eventUID"], entry["result"]) for entry in record["entries"]] == [(uid, "Succeeded")]


async def test_a_second_agent_stands_by(site: Site, admin: RawApi, unique_name: Callable[[str], str]) -> None:
    """Started by mistake, it claims nothing; and it goes on with the first one's work when that is asked to leave."""

    async def holder() -> str:
        lease = (await admin.get(f"{LEASES}/{site.node}")).expect(200)
        return str(lease["spec"]["holderIdentity"])

    driver, first = site.start_driver(), site.start_agent("first")
    async with site.watching(admin) as story:
        await site.ask(admin, name := unique_name("event"))
        await story.until(name, "gone")
        before = await holder()
        site.start_agent("second", f"--state-dir={site.folder / 'elsewhere'}")
        await until((site.folder / "elsewhere").exists)
        uid = (await site.ask(admin, name := unique_name("event"), hold="end"))["metadata"]["uid"]
        await until(lambda: "called-end" in site.effects(uid))
        assert await holder() == before
        await first.stop(grace_seconds=60)
        await until(lambda: site.effects(uid).count("called-end") == 2)
        assert await holder() != before
        site.release(name)
        await story.until(name, "gone")
    assert story.seen[name] == ENDED_WELL
    assert [effect for effect in site.effects(uid) if not effect.startswith("called")] == ["start", "end"]
    await driver.stop(grace_seconds=60)
    assert list(site.folder.rglob("*.sock")) == []


async def test_the_gate_and_a_node_that_is_created_anew(
    site: Site, admin: RawApi, unique_name: Callable[[str], str]
) -> None:
    """Off means that nothing is claimed and what was published stays. A claim never carries over to another uid."""
    site.start_driver()
    agent = site.start_agent("first")
    async with site.watching(admin) as story:
        uid = (await site.ask(admin, stale := unique_name("event"), hold="end"))["metadata"]["uid"]
        await until(lambda: "called-end" in site.effects(uid))
        agent.kill()

        (await admin.delete(site.node_path)).expect(200)
        await admin.poll(f"{LEASES}/{site.node}", lambda got: got.code == 404)  # it went with its node
        (await admin.post(NODES, {"metadata": {"name": site.node}})).expect(201)
        gated = site.start_agent("gated", "--feature-gates=SpecializedLifecycleManagement=false", "--platform=on-prem")
        # It is at work, but not on events.
        platform = "cloudprovider.kubernetes.io/platform"
        await admin.poll(site.node_path, lambda got: platform in got.json["metadata"].get("annotations", {}))
        await site.ask(admin, waiting := unique_name("event"))
        published = (await admin.get("/apis/lifecycle.k8s.io/v1alpha1/lifecycletransitions/ledger")).expect(200)
        assert published["spec"]["driver"] == "example.com/ledger"
        gated.kill()

        site.start_agent("again")
        failed = (await story.until(stale, "Failed"))["status"]
        assert "is no longer the one of the claim" in failed["message"]
        await story.until_all_gone([stale, waiting])
    assert story.seen[stale] == ["Pending", "Claimed", "held", "Failed", "gone"]
    assert story.seen[waiting] == ENDED_WELL
    assert "end" not in site.effects(uid)


async def test_a_driver_is_replaced_while_it_works(
    site: Site, admin: RawApi, unique_name: Callable[[str], str]
) -> None:
    """A rolling update: the new process is there before the old one goes, and goes on with its work."""
    old = site.start_driver("old", "--instance=old", "--grace-seconds=0.1")
    site.start_agent()
    async with site.watching(admin) as story:
        uid = (await site.ask(admin, name := unique_name("event"), hold="end"))["metadata"]["uid"]
        await until(lambda: "called-end" in site.effects(uid))
        site.start_driver("new", "--instance=new")
        registry = site.folder / "registry"
        await until(lambda: len(list(registry.iterdir())) == 2)
        await old.stop(grace_seconds=60)
        assert [path.name for path in registry.iterdir()] == ["ledger.example.com-new-reg.sock"]
        await until(lambda: site.effects(uid).count("called-end") == 2)
        site.release(name)
        await story.until(name, "gone")
    assert story.seen[name] == ENDED_WELL
    assert [effect for effect in site.effects(uid) if not effect.startswith("called")] == ["start", "end"]
