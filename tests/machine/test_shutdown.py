"""Graceful shutdown with real systemd, real logind, a real poweroff and the real agent process."""

from __future__ import annotations

import functools

import pytest

from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from tests.machine.conftest import RealNode

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]

CRITICAL = 2000000000
ORDER = ["low", "middle", "critical"]


async def three_groups(node: RealNode) -> None:
    await node.pod("low", needs=1.5)
    await node.pod("middle", 1000, needs=1.5)
    await node.pod("critical", CRITICAL, needs=60, grace=2)


def assert_in_order(node: RealNode) -> None:
    """Every group began when the one before had ended, and only what does not listen was killed."""
    assert sorted(ORDER, key=lambda name: node.runtime.asked[name]) == ORDER
    assert node.runtime.asked["middle"] >= node.runtime.ended["low"]
    assert node.runtime.asked["critical"] >= node.runtime.ended["middle"]
    assert node.runtime.codes == {"low": 0, "middle": 0, "critical": 137}
    assert node.runtime.ended["critical"] - node.began <= 155


async def shown(node: RealNode) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in (await node.node()).status.conditions}


async def test_the_machine_waits_as_long_as_its_pods_need_and_no_longer(node: RealNode) -> None:
    await node.boot()
    await three_groups(node)
    await node.start_agent()
    assert "fairlead-agent" in await node.inside("systemd-inhibit", "--list")
    dropped = await node.inside("cat", "/etc/systemd/logind.conf.d/99-z-fairlead.conf")
    assert "InhibitDelayMaxSec=155" in dropped  # 150 s for pods, 5 s for their last status
    await node.poweroff()
    took = await node.wait_off()
    assert took < 100, "the pods need five seconds, and the machine would wait for 155"
    assert_in_order(node)
    assert [await node.phase(name) for name in ORDER] == ["Succeeded", "Succeeded", "Failed Terminated"]
    conditions = await shown(node)
    assert conditions["LifecycleTransition"] == ("True", "shutdown-drain-complete")
    assert conditions["GracefulNodeShutdownInProgress"] == ("True", "NodeShutdown")
    assert conditions["Ready"] == ("False", "KubeletNotReady")
    (event,) = await node.events()
    assert event.claim_status is ClaimStatus.CLAIMED
    # The next boot tells the end of the story.
    await node.boot()
    await node.inside("systemctl", "start", "fairlead-agent")
    await node.until(lambda: not (node.machine.share / "state/shutdown/shutdown-state.json").exists(), "wound up")
    assert (await shown(node))["GracefulNodeShutdownInProgress"] == ("False", "NodeStarted")
    assert not (await node.node()).spec.unschedulable


@pytest.mark.parametrize("group", ORDER)
async def test_an_agent_that_is_killed_in_the_middle_is_started_again_and_goes_on(node: RealNode, group: str) -> None:
    await node.boot()
    await three_groups(node)
    await node.start_agent()
    await node.poweroff()
    await node.until(lambda: group in node.runtime.asked, f"{group} is asked to end")
    await node.kill_agent()
    assert (await shown(node))["Ready"] == ("False", "KubeletNotReady")
    await node.wait_off()
    assert_in_order(node)
    assert "shutdown lock taken over from the previous agent" in node.agent_log()
    assert [await node.phase(name) for name in ORDER] == ["Succeeded", "Succeeded", "Failed Terminated"]
    assert (await shown(node))["LifecycleTransition"] == ("True", "shutdown-drain-complete")
    assert len(await node.events()) == 1


async def test_where_no_systemd_keeps_the_lock_a_parent_does_and_starts_the_agent_again(node: RealNode) -> None:
    """As in a container: whoever kills the agent kills a child of `fairlead hold`."""
    path = node.machine.share / "units" / "fairlead-agent.service"
    unit = path.read_text().replace("kube_fairlead.cli agent", "kube_fairlead.cli hold --socket=/share/lock.sock agent")
    left_out = ("NotifyAccess=", "FileDescriptorStoreMax=", "Restart=")
    path.write_text("".join(line for line in unit.splitlines(keepends=True) if not line.startswith(left_out)))
    await node.boot()
    await three_groups(node)
    await node.start_agent()
    await node.poweroff()
    await node.until(lambda: "middle" in node.runtime.asked, "middle is asked to end")
    parent = (await node.inside("systemctl", "show", "--property=MainPID", "--value", "fairlead-agent")).strip()
    await node.inside("pkill", "-KILL", "-P", parent)
    await node.wait_off()
    assert_in_order(node)
    assert "restarting the agent with its shutdown lock" in node.agent_log()
    assert "shutdown lock taken over from the previous agent" in node.agent_log()
    assert [await node.phase(name) for name in ORDER] == ["Succeeded", "Succeeded", "Failed Terminated"]


_SAMPLER = """exec >> /share/samples
while [ -e /share/sampling ]; do systemd-inhibit --list --no-legend; echo -; done
"""


async def test_the_lock_has_no_gap_while_agents_are_killed(node: RealNode) -> None:
    """systemd's file descriptor store: whoever looks, at any moment, sees the lock."""
    await node.boot()
    await node.pod("low")
    await node.start_agent()
    (node.machine.share / "sampling").touch()
    samples = node.machine.share / "samples"

    async def look_again() -> None:
        seen = samples.read_text().count("-\n")
        await node.until(lambda: samples.read_text().count("-\n") > seen + 3, "it is looked again")

    def handed_on(times: int) -> bool:
        return node.agent_log().count("shutdown lock taken over from the previous agent") == times

    await node.inside("systemd-run", "--unit=sampler", "bash", "-c", _SAMPLER)
    for times in (1, 2, 3):
        await node.kill_agent()
        await node.until(functools.partial(handed_on, times), "the next agent has the lock")
        await look_again()
    (node.machine.share / "sampling").unlink()
    await node.until(
        lambda: "inactive" in node.machine.run("systemctl", "is-active", "sampler", check=False).stdout, ""
    )
    *looks, rest = samples.read_text().split("-\n")
    assert rest == ""
    assert len(looks) > 12
    assert all("fairlead-agent" in look for look in looks)
    assert node.agent_log().count("shutdown lock acquired") == 1
    assert handed_on(3)


@pytest.mark.parametrize("group", ORDER)
async def test_killed_in_the_middle_with_the_api_out_of_reach_the_disk_is_enough(node: RealNode, group: str) -> None:
    await node.boot()
    await three_groups(node)
    await node.start_agent()
    await node.plane.stop_server(hard=True)
    await node.poweroff()
    await node.until(lambda: group in node.runtime.asked, f"{group} is asked to end")
    await node.kill_agent()
    await node.wait_off()
    assert_in_order(node)
    await node.plane.start_server()
    await node.boot()
    await node.inside("systemctl", "start", "fairlead-agent")
    await node.until(lambda: not (node.machine.share / "state/shutdown/shutdown-state.json").exists(), "wound up")
    assert [await node.phase(name) for name in ORDER] == ["Succeeded", "Succeeded", "Failed Terminated"]


async def test_a_shutdown_that_is_called_off_is_taken_back_and_the_next_one_is_graceful_again(node: RealNode) -> None:
    await node.boot()
    await node.pod("low", needs=1)
    await node.start_agent()
    await node.poweroff()
    await node.until(lambda: "low" in node.runtime.asked, "low is asked to end")
    # logind gives up a shutdown whose target cannot be reached, and says so.
    await node.inside("systemctl", "mask", "--runtime", "poweroff.target")
    await node.until(lambda: "shutdown cancelled" in node.agent_log(), "it is called off")
    await node.until(lambda: not (node.machine.share / "state/shutdown/shutdown-state.json").exists(), "taken back")
    assert not (await node.node()).spec.unschedulable
    assert (await shown(node))["GracefulNodeShutdownInProgress"] == ("False", "ShutdownCancelled")
    assert "fairlead-agent" in await node.inside("systemd-inhibit", "--list")
    await node.inside("systemctl", "unmask", "--runtime", "poweroff.target")
    await node.pod("again", needs=1)
    await node.until(lambda: "again" in (node.machine.share / "state/shutdown/pods.json").read_text(), "it is known")
    await node.poweroff()
    await node.wait_off()
    assert node.runtime.codes["again"] == 0
    assert await node.phase("again") == "Succeeded"


async def test_a_restart_of_logind_loses_nothing(node: RealNode) -> None:
    await node.boot()
    await node.pod("low", needs=1)
    await node.start_agent()
    await node.inside("systemctl", "restart", "systemd-logind")
    await node.until(lambda: "logind restarted" in node.agent_log(), "it is noticed")
    assert "fairlead-agent" in await node.inside("systemd-inhibit", "--list")
    await node.poweroff()
    await node.wait_off()
    assert node.runtime.codes == {"low": 0}
    assert await node.phase("low") == "Succeeded"


async def test_logind_waits_no_longer_than_it_was_told_to(node: RealNode) -> None:
    """An agent that hangs does not keep the machine up for ever."""
    (node.machine.share / "agent.yaml").write_text("shutdownGracePeriod: 4s\n")
    await node.boot()
    await node.pod("low", needs=1)
    await node.start_agent()
    await node.inside("systemctl", "kill", "--signal=SIGSTOP", "--kill-who=main", "fairlead-agent")
    await node.poweroff()
    await node.until(lambda: "yes" not in _preparing(node), "logind gives up waiting")
    assert not node.runtime.asked


def _preparing(node: RealNode) -> str:
    if not node.machine.is_up:
        return "down"
    listed = node.machine.run("systemctl", "is-system-running", check=False).stdout
    return "no" if "stopping" in listed else "yes"


_KUBELET = """[Service]
ExecStart=systemd-inhibit --what=shutdown --mode=delay --who=kubelet --why=pods sleep infinity
Restart=always
"""


async def test_a_kubelet_that_lets_go_in_the_middle_is_stopped_and_its_pods_are_ended(node: RealNode) -> None:
    """Owner auto: whoever holds a lock as the kubelet is trusted with the pods, until that lock is gone."""
    node.machine.unit("kubelet.service", _KUBELET)
    await node.boot()
    await node.inside("systemctl", "start", "kubelet")
    await three_groups(node)
    await node.start_agent()
    await node.poweroff()
    await node.until((node.machine.share / "state/shutdown/shutdown-state.json").exists, "the shutdown is noted")
    await node.until(lambda: '"owner": "kubelet"' in node.state(), "the kubelet ends the pods")
    assert not node.runtime.asked
    await node.inside("systemctl", "kill", "--signal=SIGKILL", "kubelet")
    await node.wait_off()
    assert_in_order(node)
    assert "kubelet stopped" in node.agent_log()
    assert (await shown(node))["Ready"] == ("False", "KubeletNotReady")


async def test_the_kubelet_is_stopped_at_once_and_started_again_when_it_is_called_off(node: RealNode) -> None:
    node.machine.unit("kubelet.service", "[Service]\nExecStart=sleep infinity\nRestart=always\n")
    await node.boot()
    await node.inside("systemctl", "start", "kubelet")
    await node.pod("low", needs=2)
    await node.start_agent()
    await node.poweroff()
    await node.until(lambda: "low" in node.runtime.asked, "low is asked to end")
    assert (await node.inside("systemctl", "is-active", "kubelet", check=False)).strip() == "inactive"
    await node.inside("systemctl", "mask", "--runtime", "poweroff.target")
    await node.until(lambda: "kubelet started" in node.agent_log(), "the kubelet is started again")
    assert (await node.inside("systemctl", "is-active", "kubelet", check=False)).strip() == "active"
