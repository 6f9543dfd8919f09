"""One cluster, two clouds and machines of nobody's: managers as processes of their own, and judges that are not ours.

The judges are the API server's audit log and a proxy in front of the cloud. Neither asks the managers.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from kube_fairlead.base import files
from kube_fairlead.base.clock import RealClock
from kube_fairlead.cloud.enforcement import Manager, ccm_manifests
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi
from tests.clouds.aws import EmulatedAws
from tests.clouds.proxy import RecordingProxy
from tests.spec.kep5778.cluster import NODES, account_access, apply, create_node, until_refused

__all__ = ["Hybrid", "Write", "keys_of_taints"]

Json = dict[str, Any]
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# Fast, so that a test sees many passes; a Lease counts whole seconds and stays as it is.
_PERIODS = ("--node-monitor-period=300ms", "--node-status-update-frequency=1s", "--route-reconciliation-period=500ms")


@dataclasses.dataclass(frozen=True)
class Write:
    """A write to a node that reached the API server, allowed or not."""

    user: str
    verb: str
    node: str
    subresource: str
    code: int


@dataclasses.dataclass
class Hybrid:
    """The cluster. `owner` says of each node whose it is: `aws`, `static` or nobody's (empty)."""

    plane: ControlPlane
    api: RawApi
    aws: EmulatedAws
    witness: RecordingProxy
    folder: pathlib.Path
    owner: dict[str, str] = dataclasses.field(default_factory=dict)
    instances: dict[str, str] = dataclasses.field(default_factory=dict)  # node -> EC2 instance
    machines: dict[str, Json] = dataclasses.field(default_factory=dict)  # the inventory
    managers: dict[str, Manager] = dataclasses.field(default_factory=dict)
    processes: dict[str, ManagedProcess] = dataclasses.field(default_factory=dict)

    async def start_manager(
        self,
        provider: str,
        platform: str,
        *flags: str,
        routes: bool = False,
        services: bool = False,
        foreign: str = "",
    ) -> None:
        """Start `fairlead cloud-controller-manager` with exactly the rights that it is given.

        With a foreign node not before the policy keeps it from that one.
        """
        manager = Manager(provider=provider, platforms=frozenset({platform}), routes=routes, services=services)
        await apply(self.api, ccm_manifests(manager))
        self.managers[provider] = manager
        access = await account_access(self.api, manager)
        kubeconfig = write_kubeconfig(self.folder / f"{provider}.kubeconfig", access)
        if foreign:
            async with RawApi(access) as account:
                await until_refused(account, f"{NODES}/{foreign}")
        command = [
            sys.executable,
            "-m",
            "kube_fairlead.cli",
            "cloud-controller-manager",
            f"--kubeconfig={kubeconfig}",
            f"--cloud-provider={provider}",
            "--secure-port=0",
            *_PERIODS,
            *flags,
        ]
        process = ManagedProcess(f"ccm-{provider}", command, folder=self.folder)
        self.processes[provider] = process
        process.start()

    async def start_aws(
        self,
        *flags: str,
        config: Mapping[str, str] | None = None,
        routes: bool = False,
        services: bool = False,
    ) -> None:
        """The manager of the emulated EC2, which it sees through the witness."""
        path = self.aws.write_config(
            self.folder / "aws.conf", url=self.witness.url, KubernetesClusterID="test", **(config or {})
        )
        await self.start_manager("aws", "aws", f"--cloud-config={path}", *flags, routes=routes, services=services)

    async def start_static(self, *flags: str, lease: bool = False, foreign: str = "") -> None:
        """The manager of the inventory file; with its Lease named, which it would otherwise tell from its platforms."""
        more = ["--leader-elect-resource-name=cloud-controller-manager-static-on-prem"] if lease else []
        config = f"--cloud-config={self.write_inventory()}"
        await self.start_manager("static", "on-prem", config, *flags, *more, foreign=foreign)

    async def stop(self) -> None:
        for process in self.processes.values():
            await process.stop()

    async def join_aws(self, *, pod_cidr: str = "") -> str:
        """An EC2 instance starts, and its kubelet registers a node that waits for its cloud."""
        [raw] = self.aws.launch(tags={"kubernetes.io/cluster/test": "owned"})
        name = str(raw["PrivateDnsName"])
        self.owner[name], self.instances[name] = "aws", str(raw["InstanceId"])
        await create_node(self.api, name, waiting=True, pod_cidr=pod_cidr)
        return name

    async def join_static(self, name: str, *, annotated: bool = False) -> str:
        """A machine of the inventory joins."""
        self.machines[name] = {"name": name, "zone": "rack1", "region": "home"}
        self.write_inventory()
        self.owner[name] = "static"
        await create_node(self.api, name, waiting=True, platform="on-prem" if annotated else None)
        return name

    async def join(self, name: str, provider_id: str = "", **more: Any) -> str:
        """A machine of nobody's joins."""
        self.owner[name] = ""
        await create_node(self.api, name, provider_id, **more)
        return name

    def write_inventory(self) -> pathlib.Path:
        path = self.folder / "inventory.yaml"
        content = {"platforms": ["on-prem"], "instances": list(self.machines.values())}
        files.write_atomically(path, json.dumps(content).encode())
        return path

    async def get(self, name: str) -> Json:
        return (await self.api.get(f"{NODES}/{name}")).expect(200)

    async def until(self, name: str, wanted: Callable[[Json], bool]) -> Json:
        """The node, once it is as wanted."""
        return (await self._poll(name, lambda answer: answer.code == 200 and wanted(answer.json))).json

    async def until_gone(self, name: str) -> None:
        await self._poll(name, lambda answer: answer.code == 404)

    async def initialised(self, *names: str) -> None:
        for name in names:
            await self.until(name, lambda node: "providerID" in node["spec"] and not keys_of_taints(node))

    async def until_written(self, wanted: Callable[[Write], bool]) -> None:
        """Wait for a write that the audit log tells of."""
        clock = RealClock()
        try:
            async with clock.timeout(60):
                while not any(map(wanted, self.writes())):
                    await clock.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"no write as wanted\n{self._last_words()}") from None

    async def passes(self, number: int = 5) -> None:
        """Wait until the cloud was asked about nodes so many times more: so many passes were made.

        There must be a node that it asks about every time: one of its own that is not Ready.
        """
        await self.witness.wait_for_more("DescribeInstances", number)

    async def _poll(self, name: str, wanted: Callable[[Answer], bool]) -> Answer:
        try:
            return await self.api.poll(f"{NODES}/{name}", wanted)
        except TimeoutError:
            seen = (await self.api.get(f"{NODES}/{name}")).text
            raise AssertionError(f"{name} did not become as wanted: {seen}\n{self._last_words()}") from None

    def _last_words(self) -> str:
        return "\n".join(process.last_words() for process in self.processes.values())

    def writes(self) -> list[Write]:
        """Every write to a node, as the API server's audit log has it."""
        assert self.plane.audit_log is not None
        entries = [json.loads(line) for line in self.plane.audit_log.read_text(encoding="utf-8").splitlines()]
        return [
            Write(
                user=entry["user"]["username"],
                verb=entry["verb"],
                node=entry["objectRef"].get("name", ""),
                subresource=entry["objectRef"].get("subresource", ""),
                code=entry["responseStatus"]["code"],
            )
            for entry in entries
            if entry["stage"] == "ResponseComplete"
            and entry["verb"] in _WRITES
            and entry.get("objectRef", {}).get("resource") == "nodes"
            and "dryRun=" not in entry["requestURI"]
        ]

    def judge(self, *, asked_by_name: AbstractSet[str] = frozenset()) -> None:
        """No write and no call crossed ownership.

        Args:
            asked_by_name: nodes that named no platform while they waited, so that any cloud might be asked.
        """
        writes = self.writes()
        for provider, manager in self.managers.items():
            touched = {write.node for write in writes if write.user == manager.user}
            foreign = {name for name in touched if self.owner[name] != provider}
            assert not foreign, f"{provider} wrote to {foreign}"
            refused = [write for write in writes if write.user == manager.user and write.code == 403]
            assert not refused, f"{provider} was refused: {refused}"
        own = set(self.instances.values())
        names = asked_by_name | set(self.instances)
        for call in self.witness.calls:
            assert call.instances <= own, f"{call.action} names {call.instances - own}"
            told = {name for name in self.owner if name in call.values}
            assert told <= names, f"{call.action} tells of {told - names}"


def keys_of_taints(node: Json) -> set[str]:
    """The taints of a node, by key."""
    return {taint["key"] for taint in node["spec"].get("taints") or []}
