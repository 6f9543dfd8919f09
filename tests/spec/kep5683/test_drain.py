"""KEP-5683, Orchestration: a server-side drain by the reference driver, as an operator sees it, as processes."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.spec.kep5683.deadly_proxy import deadly_proxy
from tests.spec.kep5683.draining import LIFECYCLE, Fleet
from tests.spec.kep5683.site import condition, until

EVENTS = f"{LIFECYCLE}/lifecycleevents"


def name_of(event: dict[str, Any]) -> str:
    return str(event["object"]["metadata"]["name"])


async def create(fleet: Fleet, transition: str, name: str, **options: str) -> None:
    annotations = {f"drain.fairlead.dev/{key.replace('_', '-')}": value for key, value in options.items()}
    body = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleEvent",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"transitionName": transition, "bindingNode": fleet.node},
    }
    (await fleet.api.post(EVENTS, body)).expect(201)


async def test_the_two_transitions_from_drain_started_to_maintenance_complete(fleet: Fleet) -> None:
    """ "Two LifecycleTransitions: DrainStarted to DrainComplete, Uncordoning to MaintenanceComplete"."""
    await fleet.pod("web")
    await fleet.pod("slow", ends="1s")
    reasons: list[str] = []

    def note(event: dict[str, Any]) -> bool:
        reason = condition(event["object"]).get("reason", "")
        if reason and reasons[-1:] != [reason]:
            reasons.append(reason)
        return bool(reason == reasons_end)

    reasons_end = "DrainComplete"
    async with fleet.api.watch("/api/v1/nodes", fieldSelector=f"metadata.name={fleet.node}") as watch:
        await create(fleet, "node-drain", f"drain-{fleet.node}")
        drained = (await watch.until(note))["object"]
        assert await fleet.left() == []
        assert drained["spec"]["unschedulable"] is True
        assert condition(drained)["message"] == "Lifecycle Transition 'node-drain'"
        reasons_end = "MaintenanceComplete"
        await create(fleet, "node-uncordon", f"uncordon-{fleet.node}")
        back = (await watch.until(note))["object"]
    assert reasons == ["DrainStarted", "DrainComplete", "Uncordoning", "MaintenanceComplete"]
    assert "unschedulable" not in back["spec"]


async def test_a_budget_blocks_and_then_frees(fleet: Fleet) -> None:
    """The blocker is seen while it blocks: which pod, which budget, since when."""
    await fleet.pod("web-1", labels={"app": "web"})
    await fleet.pod("db")
    await fleet.budget("web", {"app": "web"}, minAvailable=1)
    drain = await fleet.fairlead("drain", fleet.node)
    await drain.until(f"1/2 pods gone; blocked: {fleet.namespace}/web-1 by budget {fleet.namespace}/web (")
    assert await fleet.left() == ["web-1"]
    event = (await fleet.api.get(EVENTS, fieldSelector=f"spec.bindingNode={fleet.node}")).expect(200)["items"][0]
    assert event["status"]["progress"] == {"done": 1, "total": 2, "unit": "pods"}
    assert "since 20" in event["status"]["message"]
    await fleet.pod("web-2", fleet.nodes[1], labels={"app": "web"})
    assert await drain.ended() == 0
    assert drain.out.endswith(f"node/{fleet.node} drained\n")
    assert await fleet.left(fleet.nodes[1]) == ["web-2"]
    # The event is gone, or soon is; what it came to stays: who asked, and each pod with what blocked it.
    records = f"{LIFECYCLE}/nodelifecyclerecords/{fleet.node}"
    (entry,) = (await fleet.api.poll(records, lambda answer: answer.code == 200)).json["entries"]
    assert (entry["eventUID"], entry["result"]) == (event["metadata"]["uid"], "Succeeded")
    assert entry["requestedBy"]["name"]
    pods = {pod["name"]: pod for pod in entry["pods"]}
    assert {name: pod["state"] for name, pod in pods.items()} == {"web-1": "Gone", "db": "Gone"}
    assert pods["web-1"]["attempts"] >= 1
    assert f"by budget {fleet.namespace}/web (" in pods["web-1"]["blockedBy"]
    assert (pods["db"]["attempts"], "blockedBy" in pods["db"]) == (1, False)
    history = await fleet.fairlead("history", fleet.node)
    assert await history.ended() == 0
    assert f"{fleet.namespace}/web-1 (uid {pods['web-1']['uid']}): Gone" in history.out


async def test_ctrl_c_detaches_and_the_same_command_attaches(fleet: Fleet) -> None:
    """ "Ctrl-C detaches without stopping it, running it again re-attaches"."""
    await fleet.pod("web-1", labels={"app": "web"})
    await fleet.budget("web", {"app": "web"}, minAvailable=1)
    first = await fleet.fairlead("drain", fleet.node)
    await first.until("blocked: ")
    first.interrupt()
    assert await first.ended() == 130
    assert "detached; the drain continues" in first.out
    again = await fleet.fairlead("drain", fleet.node, "--ignore-daemonsets")
    await again.until("drain is already in progress")
    await again.until("it keeps its own options: ignore-daemonsets=false instead of true")
    assert "requested (" not in again.out
    await fleet.pod("web-2", fleet.nodes[1], labels={"app": "web"})
    assert await again.ended() == 0
    assert await fleet.left() == []


async def test_refusals_are_kubectls_and_touch_nothing(fleet: Fleet) -> None:
    await fleet.pod("bare", bare=True)
    await fleet.pod("web")
    said = await fleet.said("drain", fleet.node, code=1)
    assert "cannot delete Pods that declare no controller (use --force to override): " in said
    assert f" {fleet.node}\n" in said[said.index("There are pending nodes to be drained:") :]
    assert await fleet.left() == ["bare", "web"]
    assert "unschedulable" not in (await fleet.node_object())["spec"]
    previewed = await fleet.said("drain", fleet.node, "--force", "--dry-run=server")
    assert f"evicting pod {fleet.namespace}/bare (server dry run)" in previewed
    assert f"Warning: deleting Pods that declare no controller: {fleet.namespace}/bare" in previewed
    assert await fleet.left() == ["bare", "web"]
    await fleet.said("drain", "--force", fleet.node)
    assert await fleet.left() == []


async def test_a_timeout_ends_the_drain_and_names_what_is_left(fleet: Fleet) -> None:
    await fleet.pod("web", labels={"app": "web"})
    await fleet.budget("web", {"app": "web"}, minAvailable=1)
    said = await fleet.said("drain", fleet.node, "--timeout=2s", code=1)
    assert f"timed out after 2s with 1 pods left: {fleet.namespace}/web; blocked: " in said
    assert (await fleet.node_object())["spec"]["unschedulable"] is True


async def test_a_timeout_ends_the_command_when_the_driver_was_killed(fleet: Fleet) -> None:
    """The driver keeps the timeout, and cannot when it is dead: the command says so, keeps it, and leaves the event."""
    await fleet.pod("web", labels={"app": "web"})
    await fleet.budget("web", {"app": "web"}, minAvailable=1)
    drain = await fleet.fairlead("drain", fleet.node, "--timeout=15s")
    await drain.until("blocked: ")
    fleet.processes[f"driver-{fleet.node}"].kill()
    await drain.until("driver fairlead.dev/drain unreachable since 20")
    assert await drain.ended() == 1
    said = drain.out[drain.out.index("unable to drain") :]
    assert "it did not end within 15s of the claim; " in said
    assert "driver fairlead.dev/drain unreachable since 20" in said
    assert f" continues; `fairlead status {fleet.node}` shows the event, and the same command follows it again" in said
    status = await fleet.said("status", fleet.node)
    assert "Waits for:  driver fairlead.dev/drain is unreachable since 20" in status


async def test_a_foreign_cordon_is_not_undone_unless_told_to(fleet: Fleet) -> None:
    path = f"/api/v1/nodes/{fleet.node}"
    (await fleet.api.patch(path, {"spec": {"unschedulable": True}})).expect(200)
    await fleet.said("drain", fleet.node)
    said = await fleet.said("uncordon", fleet.node, code=1)
    assert f"node {fleet.node} was not cordoned by Fairlead, so it stays cordoned" in said
    await fleet.said("uncordon", fleet.node, "--force")
    assert "unschedulable" not in (await fleet.node_object())["spec"]


async def test_a_cordon_after_ours_was_lifted_is_not_taken_for_ours(fleet: Fleet) -> None:
    """Controllers fighting over the cordon: kubectl lifts ours, its mark stays, and another tool cordons."""
    path = f"/api/v1/nodes/{fleet.node}"
    await fleet.said("drain", fleet.node)
    assert "Cordoned:   by fairlead (node-drain-" in await fleet.said("status", fleet.node)
    (await fleet.api.patch(path, {"spec": {"unschedulable": None}})).expect(200)
    (await fleet.api.patch(path, {"spec": {"unschedulable": True}})).expect(200)
    assert "cordoned-by" in str((await fleet.node_object())["metadata"]["annotations"])
    assert "Cordoned:   by another user" in await fleet.said("status", fleet.node)
    assert "was not cordoned by Fairlead" in await fleet.said("uncordon", fleet.node, code=1)
    assert (await fleet.node_object())["spec"]["unschedulable"] is True


async def test_a_drain_that_nobody_takes_up_is_explained_and_taken_back(fleet: Fleet) -> None:
    lonely = fleet.nodes[1]
    said = await fleet.said("drain", lonely, "--timeout=7s", code=1)
    assert "the node has no claimant" in said
    assert "is `fairlead agent` running on the node?" in said
    assert "not claimed within 7s, so the event was deleted" in said
    left = (await fleet.api.get(EVENTS, fieldSelector=f"spec.bindingNode={lonely}")).expect(200)["items"]
    assert left == []


async def test_several_nodes_one_after_the_other(fleet: Fleet) -> None:
    fleet.start(fleet.nodes[1])
    for node in fleet.nodes:
        await fleet.pod(f"on-{node}", node)
    labels = {"metadata": {"labels": {"pool": fleet.node}}}
    for node in fleet.nodes:
        (await fleet.api.patch(f"/api/v1/nodes/{node}", labels)).expect(200)
    said = await fleet.said("drain", "--selector", f"pool={fleet.node}")
    first, second = fleet.nodes
    assert said.index(f"node/{first} drained") < said.index(f"node/{second}: drain requested")
    assert said.index(f"node/{second}: drain requested") < said.index(f"node/{second} drained")


async def test_the_driver_is_killed_between_evictions(bare_fleet: Fleet) -> None:
    """No pod evicted twice, none forgotten, progress goes on; and that though it never hears an answer."""
    fleet = bare_fleet
    fleet.start(fleet.node, "agent")
    names = [f"web-{number}" for number in range(4)]
    for name in names:
        # The next life of the driver finds it still ending.
        await fleet.pod(name, labels={"app": "web"}, ends="1h")
    for number in range(2):
        await fleet.pod(f"other-{number}", fleet.nodes[1], labels={"app": "web"})
    # One at a time: there is a moment between any two evictions.
    await fleet.budget("web", {"app": "web"}, minAvailable=5)
    async with deadly_proxy(fleet.plane, fleet.folder) as proxy, fleet.api.watch(fleet.pods) as watch:

        def accepted() -> list[str]:
            evictions = [(path, code) for _, path, code in proxy.answered if path.endswith("/eviction")]
            return [path.split("/")[-2] for path, code in evictions if code == 201]

        def fate(_method: str, path: str, when: str) -> bool:
            is_ours = path.endswith("/eviction") and "/web-" in path
            return is_ours and when == "after" and proxy.answered[-1][2] == 201

        proxy.fate = fate
        fleet.start(fleet.node, "driver", kubeconfig=proxy.kubeconfig)
        driver = fleet.processes[f"driver-{fleet.node}"]
        proxy.kill = driver.kill
        await fleet.ready()
        drain = await fleet.fairlead("drain", fleet.node)
        for number in range(len(names)):
            await until(lambda: not driver.running)
            ending, late = accepted()[-1], f"zz-{number}"
            await fleet.pod(late)
            driver.start()
            # It has looked at the node: whoever is to be asked to go was.
            await until(lambda late=late: late in accepted())  # type: ignore[misc] # bound
            await fleet.api.delete(f"{fleet.pods}/{ending}", gracePeriodSeconds="0")
            await watch.until(lambda event, ending=ending: event["type"] == "DELETED" and name_of(event) == ending)  # type: ignore[misc] # bound
            # A replacement comes up and is ready, so that the budget lets the next one go.
            await fleet.pod(f"new-{number}", fleet.nodes[1], labels={"app": "web"})
        assert await drain.ended() == 0, drain.out
        assert sorted(accepted()) == sorted([*names, *(f"zz-{number}" for number in range(len(names)))])
    assert await fleet.left() == []
    assert len(await fleet.left(fleet.nodes[1])) == 6


async def test_no_transition_no_drain(bare_fleet: Fleet) -> None:
    said = await bare_fleet.said("drain", bare_fleet.node, "--transition=nobodys", code=1)
    assert "there is no LifecycleTransition nobodys: drivers publish them when they register" in said
    said = await bare_fleet.said("drain", "no-such-node", code=1)
    assert 'nodes "no-such-node" not found' in said
    assert await asyncio.wait_for(bare_fleet.said("drain", code=2), 60)
