"""One table of cases, through the real kubectl drain and through Fairlead's driver, on the same objects.

Same pods go, same pods stay, same refusals; where not, the difference is intended and the case says why.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead.cli import drain as drain_command
from kube_fairlead.cli.nodes import node_flags
from kube_fairlead.client import Client
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.drain import drain_preview
from kube_fairlead.drivers.drain.driver import DrainDriver
from kube_fairlead.drivers.sdk.service import Service
from kube_fairlead.lifecycle.drain import options as drain_options
from kube_fairlead_lab.testing import ControlPlane, KubeControlPlane, KubeOptions, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.components import EMBEDDED_CONTROLLERS
from kube_fairlead_lab.testing.manifests import node as node_manifest
from kube_fairlead_lab.testing.manifests import pod as pod_manifest
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.interop.conftest import Kubectl, PodKeeper

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("drain-parity")]

Json = dict[str, Any]


@dataclass(frozen=True)
class P:
    """A pod of a case."""

    name: str
    owner: str = "ReplicaSet"  # "" for none; "missing" for a DaemonSet that does not exist
    emptydir: bool = False
    mirror: bool = False
    finished: bool = False
    stuck: bool = False  # deleted, and held by a finalizer
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """What is on the node, what is asked for, and what both must make of it."""

    name: str
    pods: tuple[P, ...]
    flags: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    fails: bool = False
    says: str = ""  # a refusal that both must word alike; {} is a pod's full name
    budgets: tuple[str, ...] = ()  # names; each wants every pod labelled app=web to stay
    cordoned: bool = False
    kubectl_says: str = ""  # where the difference is intended
    fairlead_says: str = ""
    difference: str = ""


UNMANAGED = "cannot delete Pods that declare no controller (use --force to override): {}"
DAEMON = "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): {}"
STORAGE = "cannot delete Pods with local storage (use --delete-emptydir-data to override): {}"
WEB = {"app": "web"}

CASES = [
    Case("managed pods go", (P("a"), P("b", owner="StatefulSet"), P("c", owner="Job"))),
    Case("an empty node is drained", ()),
    Case("a node that is cordoned already", (P("a"),), cordoned=True),
    Case("a bare pod refuses", (P("a"), P("bare", owner="")), stays=("a", "bare"), fails=True, says=UNMANAGED),
    Case("a bare pod by force", (P("a"), P("bare", owner="")), ("--force",)),
    Case("a finished bare pod", (P("bare", owner="", finished=True),)),
    Case("a daemon refuses", (P("a"), P("d", "DaemonSet")), stays=("a", "d"), fails=True, says=DAEMON),
    Case("a daemon is ignored", (P("a"), P("d", "DaemonSet")), ("--ignore-daemonsets",), stays=("d",)),
    Case("force does not move a daemon", (P("d", "DaemonSet"),), ("--force",), stays=("d",), fails=True, says=DAEMON),
    Case("a finished daemon goes", (P("d", "DaemonSet", finished=True),)),
    Case(
        "an orphaned daemon refuses",
        (P("a"), P("d", "missing")),
        ("--ignore-daemonsets",),
        stays=("a", "d"),
        fails=True,
        says='cannot delete daemonsets.apps "missing" not found: {}',
    ),
    Case("an orphaned daemon by force", (P("d", "missing"),), ("--force",)),
    Case("a mirror pod stays", (P("a"), P("m", owner="", mirror=True)), stays=("m",)),
    Case("a mirror pod stays by force", (P("m", owner="", mirror=True),), ("--force",), stays=("m",)),
    Case("local data refuses", (P("a"), P("e", emptydir=True)), stays=("a", "e"), fails=True, says=STORAGE),
    Case("local data may go", (P("e", emptydir=True),), ("--delete-emptydir-data",)),
    Case("local data of a finished pod", (P("e", emptydir=True, finished=True),)),
    Case(
        "local data of a bare pod needs both flags",
        (P("e", owner="", emptydir=True),),
        ("--delete-emptydir-data",),
        stays=("e",),
        fails=True,
        says=UNMANAGED,
    ),
    Case("all flags together", (P("e", "", emptydir=True),), ("--delete-emptydir-data", "--force")),
    Case("a selector", (P("w", labels=WEB), P("o")), ("--pod-selector=app=web",), stays=("o",)),
    Case(
        "a selector passes by what it does not mean",
        (P("a", labels=WEB), P("b", "")),
        ("--pod-selector=app=web",),
        ("b",),
    ),
    Case("a grace period", (P("a"),), ("--grace-period=1",)),
    Case("no grace at all", (P("a"),), ("--grace-period=0",)),
    Case(
        "a budget and a timeout",
        (P("a"), P("w", labels=WEB)),
        ("--timeout=1s",),
        stays=("w",),
        fails=True,
        budgets=("b",),
        kubectl_says="global timeout reached: 1s",
        fairlead_says="timed out after 1s with 1 pods left: {}",
        difference="ours ends when the time is over, not after the sleep, and names the budget",
    ),
    Case("deletion passes over budgets", (P("w", labels=WEB),), ("--disable-eviction",), budgets=("b",)),
    Case(
        "two budgets on one pod",
        (P("a"), P("w", labels=WEB)),
        ("--timeout=1s",),
        stays=("w",),
        fails=True,
        budgets=("b", "c"),
        kubectl_says="This pod has more than one PodDisruptionBudget",
        fairlead_says="by 2 budgets at once, test/b, test/c",
        difference="kubectl gives up at once; ours waits, since removing one of the two lets it go on",
    ),
    Case(
        "a stuck pod and a limit to waiting",
        (P("a"), P("s", stuck=True)),
        ("--skip-wait-for-delete-timeout=1",),
        stays=("s",),
    ),
    Case(
        "a stuck pod and a timeout",
        (P("a"), P("s", stuck=True)),
        ("--timeout=2s",),
        stays=("s",),
        fails=True,
        kubectl_says="error when waiting for pod",
        fairlead_says="with 1 pods left: {}",
        difference="the words only",
    ),
]


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Real Kubernetes, without the collector that would take the pods of a missing DaemonSet away first."""
    binaries = KubeBinaries.find()
    missing = binaries.missing("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    controllers = [name for name in EMBEDDED_CONTROLLERS if name != "garbage-collector-controller"]
    folder = tmp_path_factory.mktemp("parity")
    yield from watch_over(
        request.config, KubeControlPlane(folder, KubeOptions(controllers=controllers), binaries=binaries)
    )


class Side:
    """One node, with the objects of a case on it."""

    def __init__(self, api: RawApi, node: str) -> None:
        self.api = api
        self.node = node
        self.namespace = f"on-{node}"
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"

    async def furnish(self, case: Case) -> None:
        """Make the objects."""
        (await self.api.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})).expect(201)
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        await self.api.poll(account, lambda answer: answer.code == 200)
        body = node_manifest(self.node)
        if case.cordoned:
            body["spec"] = {"unschedulable": True}
        (await self.api.post("/api/v1/nodes", body)).expect(201)
        daemons = f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets"
        template = {"metadata": {"labels": {"x": "y"}}, "spec": pod_manifest("x")["spec"]}
        spec = {"selector": {"matchLabels": {"x": "y"}}, "template": template}
        (await self.api.post(daemons, {"metadata": {"name": "DaemonSet".lower()}, "spec": spec})).expect(201)
        for one in case.pods:
            await self._pod(one)
        for name in case.budgets:
            budgets = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
            wanted = {"selector": {"matchLabels": WEB}, "minAvailable": 1}
            (await self.api.post(budgets, {"metadata": {"name": name}, "spec": wanted})).expect(201)
            await self.api.poll(
                f"{budgets}/{name}", lambda answer: answer.json.get("status", {}).get("expectedPods") == 1
            )

    async def _pod(self, one: P) -> None:
        metadata: Json = {"labels": one.labels}
        if one.owner:
            group = {"Job": "batch/v1"}.get(one.owner, "apps/v1")
            kind = "DaemonSet" if one.owner == "missing" else one.owner
            owner = {"apiVersion": group, "kind": kind, "name": one.owner.lower(), "uid": "u", "controller": True}
            metadata["ownerReferences"] = [owner]
        if one.mirror:
            metadata["annotations"] = {"kubernetes.io/config.mirror": "x"}
        if one.stuck:
            metadata["finalizers"] = ["example.com/held"]
        spec: Json = {"terminationGracePeriodSeconds": 1}
        if one.emptydir:
            spec["volumes"] = [{"name": "v", "emptyDir": {}}]
        if one.finished:
            spec["restartPolicy"] = "Never"
        (await self.api.post(self.pods, pod_manifest(one.name, self.node, spec, **metadata))).expect(201)
        await self.api.poll(f"{self.pods}/{one.name}", lambda answer: answer.json["status"]["phase"] != "Pending")
        if one.stuck:
            (await self.api.delete(f"{self.pods}/{one.name}", {"gracePeriodSeconds": 1})).expect(200)

    async def left(self) -> tuple[str, ...]:
        page = (await self.api.get(self.pods)).expect(200)
        return tuple(sorted(item["metadata"]["name"] for item in page["items"]))

    async def is_cordoned(self) -> bool:
        node = (await self.api.get(f"/api/v1/nodes/{self.node}")).expect(200)
        return bool(node["spec"].get("unschedulable"))

    async def clear(self) -> None:
        page = (await self.api.get(self.pods)).expect(200)
        for item in page["items"]:
            path = f"{self.pods}/{item['metadata']['name']}"
            await self.api.patch(path, {"metadata": {"finalizers": None}})
            await self.api.delete(path, {"gracePeriodSeconds": 0})
        await self.api.delete(f"/api/v1/nodes/{self.node}")
        await self.api.delete(f"/api/v1/namespaces/{self.namespace}")


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[RawApi]:
    async with RawApi(plane.access()) as session:
        yield session


@contextlib.asynccontextmanager
async def furnished(plane: ControlPlane, api: RawApi, case: Case, name: str) -> AsyncIterator[Side]:
    side = Side(api, name)
    async with RawApi(plane.access()) as keeping:
        keeper = asyncio.ensure_future(PodKeeper(keeping).run(f"spec.nodeName={name}"))
        try:
            await side.furnish(case)
            yield side
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])
            await side.clear()


async def by_fairlead(client: Client, side: Side, flags: tuple[str, ...]) -> str:
    """What the driver says; `done` when the node is drained."""
    context = drain_command.command.make_context("drain", [side.node, *flags])
    texts = drain_options.spell(node_flags.drain_options(context.params))
    work = sdk.Work(
        event_uid=side.node,
        event_name=f"drain-{side.node}",
        node_name=side.node,
        node_uid="",
        transition_name="node-drain",
        start="DrainStarted",
        end="DrainComplete",
        options=texts,
    )
    service = Service(DrainDriver(client), RealClock())
    try:
        async with asyncio.timeout(60):
            await service.start(work)
            await service.end(work, lambda _progress: None)
    except sdk.Refused as refused:
        return str(refused)
    return "done"


def full(side: Side, case: Case, text: str) -> str:
    """The names that a refusal must name: of the pods that are its cause."""
    guilty = [one.name for one in case.pods if one.name in case.stays and one.name not in {"a", "o"}]
    return text.replace("{}", ", ".join(f"{side.namespace}/{name}" for name in guilty)).replace(
        "test/", f"{side.namespace}/"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_as_kubectl(
    plane: ControlPlane, api: RawApi, tmp_path: Any, unique_name: Callable[[str], str], case: Case
) -> None:
    kubectl = Kubectl(KubeBinaries.find().component("kubectl"), plane.kubeconfig, "default", tmp_path)
    async with furnished(plane, api, case, unique_name("k")) as side:
        said = await kubectl("drain", side.node, *case.flags, code=1 if case.fails else 0)
        assert await side.left() == tuple(sorted(case.stays)), said
        assert full(side, case, case.says or case.kubectl_says) in said.err
        assert await side.is_cordoned()
    async with furnished(plane, api, case, unique_name("f")) as side, plane.client() as client:
        answer = await by_fairlead(client, side, case.flags)
        assert await side.left() == tuple(sorted(case.stays)), answer
        assert (answer == "done") is not case.fails, answer
        assert full(side, case, case.says or case.fairlead_says) in answer
        # A refusal leaves the node as it was, where kubectl leaves it cordoned: the one difference of them all.
        refused = case.fails and bool(case.says)
        assert await side.is_cordoned() is not refused


async def test_dry_runs_name_the_same_pods(
    plane: ControlPlane, api: RawApi, tmp_path: Any, unique_name: Callable[[str], str]
) -> None:
    kubectl = Kubectl(KubeBinaries.find().component("kubectl"), plane.kubeconfig, "default", tmp_path)
    case = Case("", (P("a"), P("bare", owner=""), P("d", "DaemonSet"), P("m", owner="", mirror=True)))
    flags = ("--force", "--ignore-daemonsets")
    async with furnished(plane, api, case, unique_name("k")) as side, plane.client() as client:
        for kind in ("client", "server"):
            theirs = (await kubectl("drain", side.node, *flags, f"--dry-run={kind}")).lines
            options = drain_options.parse({}, drain_options.DrainOptions(force=True, ignore_daemonsets=True))
            ours = await drain_preview.preview(client, side.node, options, on_server=kind == "server")
            evictions = [line.replace(" (server dry run)", "") for line in theirs if line.startswith("evicting pod")]
            wanted = sorted(line.replace(" (dry run)", "") for line in evictions)
            assert sorted(line.rpartition(" (")[0] for line in ours.lines) == wanted
        assert await side.left() == ("a", "bare", "d", "m")


@pytest.mark.parametrize("flags", [["n", "--selector=a=b"], ["n", "--pod-selector=a in b"], ["n", "--timeout=x"]])
async def test_both_refuse_bad_usage(plane: ControlPlane, tmp_path: Any, flags: list[str]) -> None:
    from kube_fairlead.base.environment import Environment
    from kube_fairlead.cli.main import main

    kubectl = Kubectl(KubeBinaries.find().component("kubectl"), plane.kubeconfig, "default", tmp_path)
    await kubectl("drain", *flags, code=1)
    assert await asyncio.to_thread(main, ["drain", *flags], environment=Environment({})) == 2
