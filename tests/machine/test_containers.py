"""Graceful shutdown of a machine whose containers are real too: containerd, runc, processes that get signals."""

from __future__ import annotations

import asyncio

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
