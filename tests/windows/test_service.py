"""The agent as a Windows service under Wine: a real service control manager, real controls, seen by other processes."""

from __future__ import annotations

import asyncio
import itertools
import pathlib
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.agent.windows.control import STOP_HINT_MS, Accept, ServiceState
from kube_fairlead_lab.testing import EmbeddedControlPlane
from tests.windows.site import CRITICAL, Site
from tests.windows.wine import Wine, windows_path

pytestmark = pytest.mark.timeout(600)

NUMBERS = itertools.count(1)
STOPPED, STOP_PENDING, RUNNING = ServiceState.STOPPED, ServiceState.STOP_PENDING, ServiceState.RUNNING


def three_periods(seconds: int) -> str:
    lines = [f"- {{priority: {one}, shutdownGracePeriodSeconds: {seconds}}}\n" for one in (0, 1000, CRITICAL)]
    return "shutdownGracePeriodByPodPriority:\n" + "".join(lines)


LONG = "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n"


@pytest.fixture
async def site(
    machine: Wine, tmp_path: pathlib.Path, fairlead_shared_apiserver: EmbeddedControlPlane
) -> AsyncIterator[Site]:
    machine.come_up_again()
    folder = tmp_path / "a site"  # a command line has to be quoted where a path has a space
    folder.mkdir()
    async with fairlead_shared_apiserver.client() as client:
        made = Site(machine, folder, fairlead_shared_apiserver, client, str(next(NUMBERS)))
        await made.register()
        try:
            yield made
        finally:
            made.clean()


async def test_a_service_is_made_raises_its_timeout_takes_its_place_stops_and_is_removed(site: Site) -> None:
    machine = site.machine
    await site.pod("stays")
    await site.start_runtime()
    site.install(LONG, "--depends-on=RpcSs", "--depends-on=PlugPlay")
    assert machine.ask("dependencies", site.service) == ["RpcSs", "PlugPlay"]
    assert machine.ask("timeout", site.service, "10000") == 10_000
    await site.start_agent()
    facts = machine.ask("facts", site.service)
    assert facts["state"] == RUNNING
    assert facts["accepts"] == Accept.STOP | Accept.PARAMCHANGE | Accept.PRESHUTDOWN
    assert machine.ask("timeout", site.service) == 35_000  # 30 s for pods, 5 s for their last status
    assert machine.ask("order") is None
    assert "this system has no PreshutdownOrder" in site.log()
    # Somebody makes an order, shortens the timeout, and says so.
    machine.ask("order", "first", "rpcss", "last")
    machine.ask("timeout", site.service, "5000")
    assert machine.ask("paramchange", site.service) == 0
    await site.until(lambda: "PreshutdownOrder updated" in site.log(), "it takes its place")
    assert machine.ask("order") == ["first", site.service, "rpcss", "last", "PlugPlay"]
    assert machine.ask("timeout", site.service) == 35_000
    seen = await site.stop()
    assert seen[0][0] in {STOP_PENDING, STOPPED}
    assert seen[-1] == [STOPPED, 0, 0, 0]
    assert "service stop requested" in site.log()
    # Stopping the agent is no shutdown: nobody was ended.
    assert site.asked() == ["serves"]
    assert await site.phase("stays") == "Running"
    code, output = machine.fairlead("agent", "remove-service", f"--name={site.service}")
    assert code == 0, output
    assert machine.ask("facts", site.service) is None


async def three_groups(site: Site, *, needs: float) -> None:
    await site.pod(f"low-{site.node}", grace=60, needs=needs)
    await site.pod(f"middle-{site.node}", 1000, grace=60, needs=needs)
    await site.pod(f"critical-{site.node}", CRITICAL, grace=60, needs=needs)
    await site.start_runtime()


async def assert_ended_in_order(site: Site) -> None:
    names = [f"{group}-{site.node}" for group in ("low", "middle", "critical")]
    ended = [line for line in site.asked() if line.startswith("ended")]
    assert ended == [f"ended {name} 0" for name in names]
    for before, after in itertools.pairwise(names):
        assert site.at(f"exec {after}") >= site.at(f"ended {before}")
    for name in names:
        assert await site.phase(name) == "Succeeded"
    conditions = await site.conditions()
    assert conditions["LifecycleTransition"] == ("True", "shutdown-drain-complete")
    assert conditions["GracefulNodeShutdownInProgress"] == ("True", "NodeShutdown")
    assert conditions["Ready"] == ("False", "KubeletNotReady")


async def test_a_real_preshutdown_notice_ends_pods_in_order_and_then_the_service(site: Site) -> None:
    """Wine ends a service three seconds after the notice, whatever it reports: a busy machine may not get to the end.

    What it does get to is in order; that the end is reached in time, however long it takes, is shown with STOP below.
    """
    await three_groups(site, needs=0.1)
    site.create(three_periods(10))
    await site.start_agent()
    seen = await asyncio.to_thread(site.machine.go_down, site.service, 5_000)
    assert (STOP_PENDING, 1, STOP_HINT_MS) in [one[1:] for one in seen]
    if "shutdown released" in site.log():
        await assert_ended_in_order(site)
        assert seen[-1][1:] == (STOPPED, 0, 0)
        return
    in_order = [f"{group}-{site.node}" for group in ("low", "middle", "critical")]
    begun = [line.split()[1] for line in site.asked() if line.startswith("exec")]
    assert begun == in_order[: len(begun)]
    assert "shutdown announced; Windows waits for the service" in site.log()


async def test_a_long_drain_reports_checkpoints_until_the_last_pod_has_ended(site: Site) -> None:
    await three_groups(site, needs=3)
    site.create(three_periods(20), long_drains=True)
    await site.start_agent()
    seen = await site.stop()
    pending = [one for one in seen if one[0] == STOP_PENDING]
    assert [checkpoint for _, checkpoint, *_ in pending] == list(range(1, len(pending) + 1))
    assert len(pending) >= 5
    assert {hint for *_, hint, _ in pending} == {STOP_HINT_MS}
    assert seen[-1] == [STOPPED, 0, 0, 0]
    await assert_ended_in_order(site)


async def test_a_notice_before_anybody_looks_after_pods_is_ignored_and_the_service_stops(site: Site) -> None:
    """Another agent looks after the same node on this machine: the service runs, and stands by."""
    await site.pod("ignored")
    await site.start_runtime()
    site.create(LONG)
    (site.folder / "state").mkdir()
    lock = windows_path(site.folder / f"state/agent-{site.node}.lock")
    code = "import pathlib, sys; from kube_fairlead.base.files import FileLock; "
    code += f"lock = FileLock(pathlib.Path({lock!r})); print('held', flush=True); sys.stdin.read()"
    other = site.machine.start("-c", code)
    try:
        assert other.stdout is not None
        assert "held" in await asyncio.to_thread(other.stdout.readline)
        await asyncio.to_thread(site.machine.ask, "start", site.service)
        await site.until(lambda: "waiting for its lock" in site.log(), "it waits for the lock")
        seen = await asyncio.to_thread(site.machine.go_down, site.service, 20_000)
    finally:
        other.communicate(timeout=60)
    assert seen[-1][1:] == (STOPPED, 0, 0)
    assert "before the agent manages pods; pods are not terminated gracefully" in site.log()
    assert site.asked() == ["serves"]
    assert await site.phase("ignored") == "Running"


@pytest.mark.parametrize("config", [None, "shutdownGracePeriod: 0s\nshutdownGracePeriodCriticalPods: 0s\n"])
async def test_shutdown_grace_period_unspecified_feature_is_not_active(site: Site, config: str | None) -> None:
    site.is_active = False
    name = f"pod-{site.node}"
    await site.pod(name)
    await site.start_runtime()
    site.create(config, long_drains=True)
    await site.start_agent()
    seen = await site.stop()
    assert seen[-1] == [STOPPED, 0, 0, 0]
    assert site.asked() == ["serves"]
    assert await site.phase(name) == "Running"


@pytest.mark.parametrize(
    ("config", "grace", "given"),
    [
        ("shutdownGracePeriod: 20s\nshutdownGracePeriodCriticalPods: 5s\n", 5, 5),
        ("shutdownGracePeriod: 16s\nshutdownGracePeriodCriticalPods: 8s\n", 600, 8),
    ],
    ids=["its own, which is shorter", "the configured one, which is shorter"],
)
async def test_a_pods_hook_and_signal_get_a_grace_period(site: Site, config: str, grace: int, given: int) -> None:
    name = f"pod-{site.node}"
    await site.pod(name, grace=grace, needs=600)
    await site.start_runtime()
    site.create(config, long_drains=True)
    await site.start_agent()
    seen = await site.stop()
    assert seen[-1] == [STOPPED, 0, 0, 0]
    asked = site.asked()
    assert asked[1] == f"exec {name} say goodbye"
    assert asked[2].startswith(f"stop {name} ")
    assert int(asked[2].split()[-1]) <= given
    assert f"ended {name} 137" in asked
    # Lower bounds too: it has its own grace period whole, and the group's but for what the agent needs to begin.
    asked_at, grace_seconds = site.given(name)
    assert grace_seconds == given if grace < 8 else grace_seconds > given / 2
    assert site.at(f"ended {name}") - asked_at >= grace_seconds - 0.1
    assert await site.phase(name) == "Failed Terminated"


async def test_a_kubelet_that_is_not_notified_before_us_is_stopped_and_its_pods_have_their_time(site: Site) -> None:
    """It has a grace period of its own, and comes after the agent: waiting for it would be in vain."""
    name = f"pod-{site.node}"
    await site.pod(name, grace=600, needs=1)
    await site.start_runtime()
    beside = await site.start_kubelet()
    site.create(LONG.replace("30s", "60s") + beside, long_drains=True)
    await site.start_agent()
    seen = await site.stop()
    assert seen[-1] == [STOPPED, 0, 0, 0]
    assert "kubelet does not terminate its pods; agent takes over" in site.log()
    assert site.given(name)[1] > 20  # of 50 s: not killed when all time was over
    assert f"ended {name} 0" in site.asked()
    assert await site.phase(name) == "Succeeded"
    assert site.machine.ask("facts", site.kubelet)["state"] == STOPPED


async def test_a_kubelet_under_a_wrapper_that_does_not_stop_ends_with_it(site: Site) -> None:
    """As under nssm: the service's process is not the kubelet's. It does not hear the notice, so the agent owns."""
    name = f"pod-{site.node}"
    await site.pod(name, grace=600, needs=1)
    await site.start_runtime()
    number = site.folder / "child"
    beside = await site.start_kubelet(number)
    child = number.read_text()
    assert site.machine.ask("tree", child)[0] == "python.exe"  # a console may be its child
    site.create(LONG.replace("30s", "60s") + beside, long_drains=True)
    await site.start_agent()
    seen = await site.stop()
    assert seen[-1] == [STOPPED, 0, 0, 0]
    assert "kubelet does not stop; terminating its processes" in site.log()
    assert site.machine.ask("tree", child) == []
    assert await site.phase(name) == "Succeeded"
