"""Drivers that are killed and leave their sockets behind: real processes, on both control planes."""

from __future__ import annotations

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683.ledger_driver import DRIVER
from tests.spec.kep5683.site import EVENTS, Site, until

MAINTENANCE = "ledger-maintenance"  # it has no SLA


async def test_nothing_is_claimed_for_a_driver_that_was_killed(site: Site, api: RawApi) -> None:
    driver = site.start_driver()
    site.start_agent()
    first, name = f"{site.node}-first", f"{site.node}-dead"
    async with site.watching(api) as story:
        await site.ask(api, first)
        await story.until(first, "gone")
        driver.kill()
        assert list((site.folder / "registry").rglob("*.sock")), "a killed driver leaves its socket behind"
        await site.ask(api, name)
        while "unreachable since" not in (event := await story.next(name)).get("status", {}).get("message", ""):
            assert event.get("status", {}).get("claimStatus", "Pending") == "Pending"
        assert f"driver {DRIVER} unreachable since" in event["status"]["message"]
        assert "claimedBy" not in event["status"]
        site.start_driver("again")
        await story.until(name, "gone")
    assert story.seen[name] == ["Pending", "Claimed", "held", "Succeeded", "gone"]


@pytest.mark.parametrize("step", ["start", "end"])
async def test_a_driver_killed_in_the_middle_fails_an_event_without_an_sla(site: Site, api: RawApi, step: str) -> None:
    driver = site.start_driver()
    site.start_agent("agent", "--driver-lost-timeout=3s", "--driver-wait-timeout=3s", "--finished-event-ttl=1h")
    name = f"{site.node}-lost"
    async with site.watching(api) as story:
        created = await site.ask(api, name, MAINTENANCE, hold=step)
        uid = created["metadata"]["uid"]
        await until(lambda: f"called-{step}" in site.effects(uid))
        driver.kill()
        event = await story.until(name, "Failed")
    assert f"driver {DRIVER} unreachable since {event['status']['driverUnreachableTime']}" in event["status"]["message"]
    notes = (await api.get("/api/v1/namespaces/default/events")).expect(200)["items"]
    about = [note["reason"] for note in notes if note["involvedObject"].get("uid") == uid]
    assert "DriverUnreachable" in about


async def test_an_event_is_pending_from_its_creation_on(site: Site, api: RawApi) -> None:
    """Nothing runs here. `kubectl get` prints what is stored, and an empty column says nothing."""
    name = f"{site.node}-new"
    await site.ask(api, name)
    assert (await api.get(f"{EVENTS}/{name}")).expect(200)["status"]["claimStatus"] == "Pending"
    (item,) = (await api.get(EVENTS, fieldSelector=f"spec.bindingNode={site.node}")).expect(200)["items"]
    assert item["status"]["claimStatus"] == "Pending"


async def test_events_of_one_second_are_claimed_in_the_order_of_their_creation(site: Site, api: RawApi) -> None:
    names = [f"{site.node}-{letter}" for letter in "zmadk"]
    uids = [(await site.ask(api, name))["metadata"]["uid"] for name in names]
    async with site.watching(api) as story:
        site.start_driver()
        site.start_agent()
        await story.until_all_gone(names)
    done = [line.split()[1] for line in site.ledger.read_text().splitlines() if line.startswith("start ")]
    assert done == uids
