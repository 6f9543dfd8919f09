"""Graceful shutdown of a machine whose containers are real too: containerd, runc, processes that get signals."""

from __future__ import annotations

import asyncio
import os
import re

import pytest

from tests.machine import containers
from tests.machine.conftest import RealNode

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]

CRITICAL = 2000000000
# It says when it is asked to end, takes a second to tidy up, and ends well.
OBEYS = (
    'trap "[ ! -e /tmp/hook ] || cat /tmp/hook; echo TERM; sleep 1; echo bye; exit 0" TERM; '
    "echo up; while :; do sleep 0.1; done"
)
# It hears the signal and stays.
STAYS = 'trap "echo TERM" TERM; echo up; while :; do sleep 0.1; done'


async def test_real_containers_get_hook_and_signal_in_order_and_their_exit_codes_are_told(node: RealNode) -> None:
    containers.install(node.machine)
    config = node.machine.share / "agent.yaml"
    config.write_text(config.read_text().replace("/share/cri.sock", "/share/containerd.sock"))
    await node.boot()
    await asyncio.to_thread(containers.start, node.machine)
    pods = containers.Pods(node.machine)
    hook = {"exec": {"command": ["/bin/sh", "-c", "echo hook > /tmp/hook"]}}
    await pods.start("low", await node.running_pod("low", 0, 60, hook), OBEYS)
    await pods.start("middle", await node.running_pod("middle", 1000, 60), OBEYS)
    await pods.start("critical", await node.running_pod("critical", CRITICAL, 2), STAYS)
    await node.until(lambda: all(pods.said(name) for name in ("low", "middle", "critical")), "all pods are up")
    await node.start_agent()
    await node.poweroff()
    await node.wait_off()
    assert pods.said("low") == ["up", "hook", "TERM", "bye"]
    assert pods.said("middle") == ["up", "TERM", "bye"]
    assert pods.said("critical") == ["up", "TERM"]
    moments = [pods.when(name, "TERM") for name in ("low", "middle", "critical")]
    assert moments == sorted(moments)
    assert pods.when("low", "bye") <= pods.when("middle", "TERM")
    assert pods.when("middle", "bye") <= pods.when("critical", "TERM")
    assert [await node.phase(name) for name in ("low", "middle", "critical")] == [
        "Succeeded",
        "Succeeded",
        "Failed Terminated",
    ]
    assert [await node.exit_code(name) for name in ("low", "middle", "critical")] == [0, 0, 137]


_AT_THE_BOUNDARY = """shutdownGracePeriodByPodPriority:
- {priority: 0, shutdownGracePeriodSeconds: 8}
- {priority: 2000000000, shutdownGracePeriodSeconds: 8}
containerRuntimeEndpoint: unix:///share/containerd.sock
"""
_PODS_OF_A_GROUP = 5
_GIVEN = r"terminating pod.*?default/([a-z]+-[0-9]).*?grace_seconds\D*([0-9.]+)"


async def test_pods_that_ignore_the_signal_on_a_busy_machine_are_accounted_for_and_had_their_groups_time(
    node: RealNode,
) -> None:
    """Every one is killed when its group's time is over: how it ended is in the API, or on disk and then in the API."""
    containers.install(node.machine)
    (node.machine.share / "agent.yaml").write_text(_AT_THE_BOUNDARY)
    await node.boot()
    await asyncio.to_thread(containers.start, node.machine)
    pods = containers.Pods(node.machine)
    names = {f"low-{one}": 0 for one in range(_PODS_OF_A_GROUP)}
    names |= {f"critical-{one}": CRITICAL for one in range(_PODS_OF_A_GROUP)}
    for name, priority in names.items():
        await pods.start(name, await node.running_pod(name, priority, 600), STAYS)
    await node.until(lambda: all(pods.said(name) for name in names), "all pods are up")
    await node.start_agent()
    await node.until(lambda: all(f'"{name}"' in node.cached_pods() for name in names), "all pods are written down")
    for number in range(os.cpu_count() or 1):
        await node.inside("systemd-run", f"--unit=busy-{number}", "bash", "-c", "while :; do :; done")
    await node.poweroff()
    await node.wait_off()
    state = node.state()
    for name in names:
        assert pods.said(name) == ["up", "TERM"]
        in_api = await node.phase(name) == "Failed Terminated"
        assert in_api or f'"{name}"' in state, f"{name} is neither in the API nor on disk"
    # A lower bound that holds however busy the machine is.
    given = {name: float(seconds) for name, seconds in re.findall(_GIVEN, node.agent_log())[::-1]}
    assert given.keys() == names.keys()
    assert min(given.values()) > 2, given
    await node.boot()
    await node.inside("systemctl", "start", "fairlead-agent")
    await node.until(lambda: not (node.machine.share / "state/shutdown/shutdown-state.json").exists(), "wound up")
    assert {await node.phase(name) for name in names} == {"Failed Terminated"}
    assert {await node.exit_code(name) for name in names} <= {137, 255}
