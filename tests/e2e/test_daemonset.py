"""What `fairlead install --shutdown-grace-period` prints, as it is: its DaemonSet, its rights, its policies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from tests.e2e import fairleadimage
from tests.e2e.cluster import Cluster, parts_folder
from tests.e2e.shutdowns import AGENT, ENDED_WELL, GROUPS, KUBELET, LOGIND, Pair

OWN_SERVICE, PORT = "10.0.0.1", 443
GRACE = ("--shutdown-grace-period=100s", "--shutdown-grace-period-critical-pods=20s")


@pytest.mark.timeout(600)
async def test_what_install_prints_sees_the_pods_of_a_real_node_out(real: Cluster) -> None:
    """The agent in its container is killed in the middle; nobody but its holder starts it again."""
    pair = Pair(real, {AGENT: "agent"})
    node = real.nodes[AGENT]
    await asyncio.to_thread(node.run, "systemctl", "stop", "fairlead-agent", "fairlead-drain")
    async with answering_pods(real):
        await asyncio.to_thread(bring_image, real)
        await install(real)
        await real.until("the agent's pod is ready", lambda: is_ready(real))
        assert await pair.is_held(AGENT, "fairlead-agent")
        allowed = pair.run(AGENT, "busctl", "get-property", *LOGIND, "InhibitDelayMaxUSec")
        assert int(allowed.split()[1]) == 105_000_000
        await pair.prepare_pods()
        await pair.start_pods(nodes=(AGENT,))
        await pair.power_off((AGENT,))
        await pair.until_asked("low", AGENT)
        # In the node's own process namespace; the holder has another command line.
        await asyncio.to_thread(node.run, "pkill", "-KILL", "-f", "kube_fairlead.cli agent")
        await pair.see("the node is down", lambda: not node.is_up)
    assert await pair.ends(AGENT) == ENDED_WELL
    low, middle, critical = (pair.said(group, AGENT) for group in GROUPS)
    assert max(low["bye"], middle["bye"]) <= critical["TERM"], "critical pods end when all others have"
    said = await conditions(real)
    assert said["LifecycleTransition"] == "shutdown-drain-complete"
    assert said["GracefulNodeShutdownInProgress"] == "NodeShutdown"
    (event,) = json.loads(await real.kubectl("get", "lifecycleevents", "-o", "json"))["items"]
    assert (event["status"]["claimStatus"], event["status"]["claimedBy"]) == ("Claimed", f"node/{AGENT}")


@pytest.mark.timeout(600)
async def test_an_agent_that_is_a_unit_has_rights_enough_with_a_token_bound_to_its_node(real: Cluster) -> None:
    """As docs/shutdown.md has it. Nobody finds the image, so that no pod's agent is there."""
    pair = Pair(real, {AGENT: "agent"})
    node = real.nodes[AGENT]
    await asyncio.to_thread(node.run, "systemctl", "stop", "fairlead-drain")
    await install(real)
    words = ["create", "token", "fairlead-agent", "-n", "fairlead-system", "--duration=1h"]
    token = (await real.kubectl(*words, "--bound-object-kind=Node", f"--bound-object-name={AGENT}")).strip()
    config = json.loads(await real.kubectl("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    (node.share / "admin.kubeconfig").write_text(json.dumps(config))
    await pair.set_up()
    await pair.start_pods(nodes=(AGENT,))
    await pair.power_off((AGENT,))
    await pair.see("the node is down", lambda: not node.is_up)
    assert await pair.ends(AGENT) == ENDED_WELL
    assert pair.is_in_order(AGENT)
    assert (await conditions(real))["LifecycleTransition"] == "shutdown-drain-complete"
    (event,) = json.loads(await real.kubectl("get", "lifecycleevents", "-o", "json"))["items"]
    assert (event["status"]["claimStatus"], event["status"]["claimedBy"]) == ("Claimed", f"node/{AGENT}")
    # On its own node the agent may write this annotation, so no other policy rejects the request first.
    words = ["--token", token, "--user", "", "annotate", "node", KUBELET, "drain.fairlead.dev/cordoned-by=agent"]
    command = [str(real.plane.binaries.component("kubectl")), f"--kubeconfig={real.plane.kubeconfig}"]
    refused = await asyncio.to_thread(
        subprocess.run, [*command, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode != 0
    assert "own-node.fairlead.dev" in refused.stderr


@contextlib.asynccontextmanager
async def answering_pods(real: Cluster) -> AsyncIterator[None]:
    """What kube-proxy does for the Service `kubernetes`: who calls its address is at the API server."""
    subprocess.run(["ip", "addr", "replace", f"{OWN_SERVICE}/32", "dev", "nodes"], check=True)  # noqa: ASYNC221 - at once
    port = int(real.plane.url.rpartition(":")[2])

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copied(reader, outer), copied(inner, writer))

    async with await asyncio.start_server(pass_on, OWN_SERVICE, PORT) as server:
        yield
        server.close()


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def bring_image(real: Cluster) -> None:
    archive = real.nodes[AGENT].share / "fairlead.tar"
    fairleadimage.write(archive)
    ctr = f"{parts_folder()}/root/usr/bin/ctr"
    real.nodes[AGENT].run(ctr, "-n", "k8s.io", "images", "import", "/share/fairlead.tar")
    archive.unlink()


async def install(real: Cluster) -> None:
    fairlead = pathlib.Path(sys.executable).parent / "fairlead"
    printed = await asyncio.to_thread(
        subprocess.run,
        [str(fairlead), "install", f"--image={fairleadimage.REFERENCE}", *GRACE],
        capture_output=True,
        text=True,
        check=True,
    )
    await real.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=printed.stdout)


async def is_ready(real: Cluster) -> bool:
    words = ["get", "pods", "-n", "fairlead-system", f"--field-selector=spec.nodeName={AGENT}", "-o", "json"]
    words.append("--selector=app.kubernetes.io/name=fairlead-agent")
    found = json.loads(await real.kubectl(*words))["items"]
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for pod in found
        for one in pod["status"].get("conditions", ())
    )


async def conditions(real: Cluster) -> dict[str, str]:
    shown = json.loads(await real.kubectl("get", "node", AGENT, "-o", "json"))
    return {one["type"]: one["reason"] for one in shown["status"]["conditions"]}
