"""`fairlead maintain`: from DrainStarted to MaintenanceComplete with the work in between, as processes."""

from __future__ import annotations

from typing import Any

from tests.spec.kep5683.draining import LIFECYCLE, Fleet
from tests.spec.kep5683.site import condition, until

EVENTS = f"{LIFECYCLE}/lifecycleevents"


async def say_ready(fleet: Fleet, status: str) -> None:
    body = {"status": {"conditions": [{"type": "Ready", "status": status, "reason": "Test"}]}}
    path = f"/api/v1/nodes/{fleet.node}/status"
    (await fleet.api.patch(path, body, "application/strategic-merge-patch+json")).expect(200)


async def test_maintenance_from_beginning_to_end(fleet: Fleet) -> None:
    """ "kubectl would orchestrate the transition from DrainStarted to MaintenanceComplete"."""
    await fleet.pod("web")
    work = 'test "$FAIRLEAD_NODE" = "$1" && echo "working on $1"'
    said = await fleet.said("maintain", fleet.node, "--", "sh", "-c", work, "sh", "{}")
    assert said.index("drained") < said.index(f"working on {fleet.node}") < said.index("maintenance complete")
    assert condition(await fleet.node_object())["reason"] == "MaintenanceComplete"
    assert await fleet.left() == []
    said = await fleet.said("maintain", fleet.node, "--", "sh", "-c", "exit 3", code=1)
    assert "the command exited with code 3; it stays drained" in said
    assert (await fleet.node_object())["spec"]["unschedulable"] is True
    assert condition(await fleet.node_object())["reason"] == "DrainComplete"


async def test_a_node_that_is_not_ready_after_the_command_is_waited_for(fleet: Fleet) -> None:
    begun, done = fleet.folder / "begun", fleet.folder / "done"
    script = f"touch {begun}; while [ ! -e {done} ]; do sleep 0.1; done"
    command = await fleet.fairlead("maintain", fleet.node, "--min-ready=0s", "--", "sh", "-c", script)
    await until(begun.exists)
    await say_ready(fleet, "False")
    done.touch()
    await command.until("waiting for the node to be Ready")
    node = await fleet.node_object()
    assert node["spec"]["unschedulable"] is True
    assert condition(node)["reason"] == "DrainComplete"
    await say_ready(fleet, "True")
    assert await command.ended() == 0
    assert command.out.endswith(f"node/{fleet.node} maintenance complete\n")


async def test_a_node_that_never_becomes_ready_stays_drained(fleet: Fleet) -> None:
    flags = ["--min-ready=1h", "--ready-timeout=2s"]
    said = await fleet.said("maintain", fleet.node, *flags, "--", "true", code=1)
    assert "the node was not Ready for 1h0m0s without a break within 2s after the work; it stays drained" in said
    assert (await fleet.node_object())["spec"]["unschedulable"] is True


async def test_a_command_that_takes_too_long_is_ended(fleet: Fleet) -> None:
    said = await fleet.said("maintain", fleet.node, "--command-timeout=1s", "--", "sleep", "600", code=1)
    assert "the command did not end within 1s; it stays drained" in said
    assert (await fleet.node_object())["spec"]["unschedulable"] is True


async def test_ctrl_c_names_the_drained_node_and_those_not_begun(fleet: Fleet) -> None:
    begun = fleet.folder / "begun"
    script = f"touch {begun}; exec sleep 600"
    command = await fleet.fairlead("maintain", *fleet.nodes, "--", "sh", "-c", script)
    await until(begun.exists)
    command.interrupt()
    assert await command.ended() == 130
    first, second = fleet.nodes
    assert (
        f"node/{first} is drained and stays drained; to make it schedulable: fairlead uncordon {first}" in command.out
    )
    assert f"not started: {second}" in command.out
    assert (
        f"node/{first}: the command was terminated; processes that it started on other machines may still run"
        in command.out
    )


async def test_the_timeout_is_kept_where_an_agent_waits_for_a_driver(fleet: Fleet) -> None:
    """An agent that has seen the event waits five minutes for its driver; the user said three seconds."""
    await fleet.processes[f"driver-{fleet.node}"].stop()
    said = await fleet.said("drain", fleet.node, "--timeout=3s", code=1)
    assert "not claimed within 3s, so the event was deleted (waiting: driver fairlead.dev/drain " in said
    left: list[Any] = (await fleet.api.get(EVENTS, fieldSelector=f"spec.bindingNode={fleet.node}")).expect(200)["items"]
    assert left == []
