"""What `fairlead install` prints: accepted by both control planes, enough for each component, and no more than that."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.api.reserved import NODE_SHUTDOWN
from kube_fairlead.base import tasks
from kube_fairlead.cloud.enforcement import Manager
from kube_fairlead.install import bundle, removal
from kube_fairlead.install.installation import AGENT, CLAIMER, DRAIN, MANAGER, NAMESPACE, Installation, ShutdownGrace
from kube_fairlead_lab.hollow import HollowCluster, HollowOptions, plan_nodes
from kube_fairlead_lab.testing import Access, ControlPlane
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.manifests import node as node_manifest
from kube_fairlead_lab.testing.manifests import pod as pod_manifest
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi
from tests.contract.installed import CLOCK, HERE, PODS, THERE, access_of, install, path_of, until_policed
from tests.planes import BOTH, make_plane
from tests.spec.kep5683.site import EVENTS, NODES, Site, until

Json = dict[str, Any]

PLAN = Installation(
    clouds=(Manager(provider="aws", platforms=frozenset({"aws"}), namespace=NAMESPACE, services=True),),
    shutdown=ShutdownGrace(grace_period="60s", critical_pods="20s"),
    claimer=True,
    eviction_requests=True,
    eviction_webhook=False,  # no webhook runs here; see test_eviction_webhook.py
)
AWAY = "node-away"
RECORDS = "/apis/lifecycle.k8s.io/v1alpha1/nodelifecyclerecords"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/fairlead-node-lease/leases"


@pytest.fixture(scope="module", params=BOTH)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    for made in watch_over(request.config, make_plane(request.param, tmp_path_factory.mktemp(request.param))):
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(install(made, PLAN))
        yield made


@pytest.fixture
async def admin(plane: ControlPlane) -> AsyncIterator[RawApi]:
    async with RawApi(plane.access(), timeout_seconds=120) as session:
        yield session


def make_site(plane: ControlPlane, node: str) -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    made = Site(plane, folder, node)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(folder)


@pytest.fixture
def site(plane: ControlPlane) -> Iterator[Site]:
    yield from make_site(plane, HERE)


@pytest.fixture
def other_site(plane: ControlPlane) -> Iterator[Site]:
    """A node whose Lease no agent of another test has held: a killed one is waited for."""
    yield from make_site(plane, THERE)


async def test_everything_can_be_applied_again(admin: RawApi) -> None:
    for manifest in bundle.manifests(PLAN):
        (await admin.apply(path_of(manifest), manifest, "tests", dryRun="All")).expect(200)


async def test_an_agent_does_its_work_with_its_own_account(admin: RawApi, site: Site) -> None:
    access = await access_of(admin, AGENT)
    async with RawApi(access) as account:
        await until_policed(account)
    site.start_driver()
    agent = site.start_agent("agent", "--platform=on-prem", kubeconfig=write_kubeconfig(site.folder / "kc", access))
    async with site.watching(admin) as story:
        await site.ask(admin, "as-agent", report="2")
        await story.until("as-agent", "gone")
    assert story.seen["as-agent"] == ["Pending", "Claimed", "held", "Succeeded", "gone"]
    node = (await admin.get(f"{NODES}/{HERE}")).expect(200)
    assert node["metadata"]["annotations"]["cloudprovider.kubernetes.io/platform"] == "on-prem"
    # Events about all of it arrive too; nothing was refused on the way.
    about = {"fieldSelector": "involvedObject.name=as-agent"}
    told = await admin.poll("/api/v1/events", lambda answer: len(answer.json["items"]) >= 3, **about)
    assert {item["reason"] for item in told.json["items"]} >= {"Claimed", "TransitionStarted", "TransitionSucceeded"}
    assert "forbidden" not in agent.last_words()


async def test_a_drain_driver_drains_with_its_own_account(admin: RawApi, other_site: Site, plane: ControlPlane) -> None:
    site = other_site
    accesses = {name: await access_of(admin, name, THERE) for name in (AGENT, DRAIN)}
    kubeconfigs = {name: write_kubeconfig(site.folder / name, access) for name, access in accesses.items()}
    for access in accesses.values():
        async with RawApi(access) as account:
            await until_policed(account, foreign=HERE)
    plans = [dataclasses.replace(plan, name=THERE) for plan in plan_nodes(1)]
    driver = [sys.executable, "-m", "kube_fairlead.cli", "driver", "drain", f"--node-name={THERE}"]
    flags = [f"--kubeconfig={kubeconfigs[DRAIN]}", f"--registry-dir={site.folder / 'registry'}"]
    async with plane.client() as client, HollowCluster(client, plans, HollowOptions(only_kubelets=True)).running():
        pod = pod_manifest("web", node_name=THERE, labels={"app": "web"})
        (await admin.post("/api/v1/namespaces/default/pods", pod)).expect(201)
        processes = [site._start("drain", [*driver, *flags]), site.start_agent(kubeconfig=kubeconfigs[AGENT])]
        async with site.watching(admin) as story:
            event = {
                "apiVersion": "lifecycle.k8s.io/v1alpha1",
                "kind": "LifecycleEvent",
                "metadata": {
                    "name": "as-drain",
                    # Not the pods whose tokens are used.
                    "annotations": {"drain.fairlead.dev/force": "true", "drain.fairlead.dev/pod-selector": "app=web"},
                },
                "spec": {"transitionName": "node-drain", "bindingNode": THERE},
            }
            (await admin.post(EVENTS, event)).expect(201)
            await story.until("as-drain", "gone")
        assert "Succeeded" in story.seen["as-drain"]
        (await admin.get("/api/v1/namespaces/default/pods/web")).expect(404)
        node = (await admin.get(f"{NODES}/{THERE}")).expect(200)
        assert node["spec"]["unschedulable"] is True
        assert all("forbidden" not in process.last_words() for process in processes)
    (await admin.patch(f"{NODES}/{THERE}", {"spec": {"unschedulable": None}})).expect(200)


def started_as_installed(folder: Path, pod: Json, access: Access, container: Json, *flags: str) -> ManagedProcess:
    """What a container of an installed pod runs, started here."""
    arguments = [one for one in container["args"] if not one.startswith(("--bind-address", "--secure-port"))]
    arguments = [one.replace("$(POD_UID)", pod["uid"]) for one in arguments]
    environment = ["/usr/bin/env", f"POD_NAME={pod['name']}", f"POD_UID={pod['uid']}"]
    kubeconfig = write_kubeconfig(folder / f"kc-{container['name']}", access)
    program = [sys.executable, "-m", "kube_fairlead.cli", *arguments, f"--kubeconfig={kubeconfig}", *flags]
    process = ManagedProcess(container["name"], [*environment, *program], folder=folder)
    process.start()
    return process


async def test_the_claimer_drains_a_node_that_has_no_agent(admin: RawApi, plane: ControlPlane) -> None:
    folder = Path(tempfile.mkdtemp(prefix="fl-"))
    access = await access_of(admin, CLAIMER)
    pod = (await admin.get(f"{PODS}/{CLAIMER}-{HERE}")).expect(200)["metadata"]
    [deployment] = [
        one for one in bundle.manifests(PLAN) if one["kind"] == "Deployment" and one["metadata"]["name"] == CLAIMER
    ]
    claimer, drain = deployment["spec"]["template"]["spec"]["containers"]
    (await admin.post(NODES, node_manifest(AWAY))).expect(201)
    plans = [dataclasses.replace(plan, name=AWAY) for plan in plan_nodes(1)]
    processes: list[ManagedProcess] = []
    try:
        async with plane.client() as client, HollowCluster(client, plans, HollowOptions(only_kubelets=True)).running():
            web = pod_manifest("web-away", node_name=AWAY)
            (await admin.post("/api/v1/namespaces/default/pods", web)).expect(201)
            registry = folder / "registry"
            flags = (f"--claimer-registry-dir={registry}", "--secure-port=0")
            processes.append(started_as_installed(folder, pod, access, drain, f"--registry-dir={registry}"))
            processes.append(started_as_installed(folder, pod, access, claimer, *flags))
            event = {
                "apiVersion": "lifecycle.k8s.io/v1alpha1",
                "kind": "LifecycleEvent",
                "metadata": {"name": "as-claimer"},
                "spec": {"transitionName": "node-drain", "bindingNode": AWAY},
            }
            (await admin.post(EVENTS, event)).expect(201)
            # As installed, the result stays for people to see; and what it came to is in the node's record.
            ended = await admin.poll(
                f"{EVENTS}/as-claimer", lambda answer: answer.json.get("status", {}).get("claimStatus") == "Succeeded"
            )
            recorded = await admin.poll(f"{RECORDS}/{AWAY}", lambda answer: answer.code == 200)
            assert [entry["eventUID"] for entry in recorded.json["entries"]] == [ended.json["metadata"]["uid"]]
            (await admin.get("/api/v1/namespaces/default/pods/web-away")).expect(404)
            assert (await admin.get(f"{NODES}/{AWAY}")).expect(200)["spec"]["unschedulable"] is True
            assert all("forbidden" not in process.last_words() for process in processes)
            (await admin.delete(f"{EVENTS}/as-claimer")).expect(200)
    finally:
        for process in processes:
            process.kill()
        (await admin.delete(f"{NODES}/{AWAY}")).expect(200)
        shutil.rmtree(folder)


async def attempt(account: RawApi, verb: str, path: str, body: Json | None = None) -> Answer:
    if verb == "patch":
        return await account.patch(path, body or {"metadata": {"labels": {"a": "b"}}}, dryRun="All")
    return await account.request(verb.upper(), path, body=body, params={} if verb == "get" else {"dryRun": "All"})


NEVER = [
    ("get", "/api/v1/secrets"),
    ("get", f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
    ("delete", f"{NODES}/{HERE}"),
    ("patch", f"{NODES}/{THERE}"),
    ("patch", f"{NODES}/{THERE}/status"),
    ("get", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
    ("delete", f"{PODS}/{MANAGER}-{THERE}"),
    ("delete", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lifecycleevents.lifecycle.k8s.io"),
    ("get", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
]


@pytest.mark.parametrize("name", [AGENT, DRAIN, MANAGER])
async def test_no_account_can_do_more(admin: RawApi, name: str) -> None:
    async with RawApi(await access_of(admin, name)) as account:
        if name != MANAGER:
            await until_policed(account)
        for verb, path in NEVER:
            answer = await attempt(account, verb, path)
            assert answer.code == 403, f"{name}: {verb} {path}: {answer.text}"


@pytest.mark.parametrize("name", [AGENT, DRAIN])
async def test_what_a_user_published_is_out_of_reach_of_agents_and_drivers(admin: RawApi, name: str) -> None:
    """An agent replaces and renews what agents published. That carries a mark, which no agent can put on another's."""
    transitions = "/apis/lifecycle.k8s.io/v1alpha1/lifecycletransitions"
    users = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleTransition",
        "metadata": {"name": f"of-a-user-{name}"},
        "spec": {"start": "a", "end": "b", "driver": "example.com/users", "allNodes": True},
    }
    mark = {"metadata": {"annotations": {"lifecycle.fairlead.dev/published-by": "example.com/users"}}}
    (await admin.post(transitions, users)).expect(201)
    path = f"{transitions}/of-a-user-{name}"
    async with RawApi(await access_of(admin, name)) as account:
        await until_policed(account)
        for answer in (await account.delete(path), await account.patch(path, mark)):
            assert answer.code == 403, answer.text
        named = {"name": f"unmarked-{name}"}
        unmarked = {**users, "metadata": named}
        assert (await account.post(transitions, unmarked)).code == 403
        if name == AGENT:
            marked = {**users, "metadata": {**named, **mark["metadata"]}}
            (await account.post(transitions, marked, dryRun="All")).expect(201)
            states = zip(("start", "end", "driver"), NODE_SHUTDOWN[1:], strict=True)
            of_shutdowns = {
                **users,
                "metadata": {"name": NODE_SHUTDOWN.name},
                "spec": {**dict(states), "allNodes": True},
            }
            (await account.post(transitions, of_shutdowns, dryRun="All")).expect(201)
    (await admin.delete(path)).expect(200)


async def test_an_agent_keeps_to_its_node(admin: RawApi) -> None:
    theirs = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleEvent",
        "metadata": {"name": "theirs"},
        "spec": {"transitionName": "nothing", "bindingNode": THERE},
    }
    made = (await admin.post(EVENTS, theirs)).expect(201)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "x"}}
    async with RawApi(await access_of(admin, AGENT)) as account:
        await until_policed(account)
        refused = [
            await account.put(f"{EVENTS}/theirs", made),
            await account.put(f"{EVENTS}/theirs/status", {**made, "status": {"claimStatus": "Failed"}}),
            await account.delete(f"{EVENTS}/theirs"),
            await account.post(EVENTS, {**theirs, "metadata": {"name": "more-of-theirs"}}),
            await account.post(LEASES, {**lease, "metadata": {"name": THERE}}),
            await account.delete(f"{PODS}/{AGENT}-{THERE}"),
        ]
        for answer in refused:
            assert answer.code == 403
            assert f'a pod on node \\"{HERE}\\" writes to' in answer.text
        # The same things of its own node are its work.
        own = {**theirs, "metadata": {"name": "own"}, "spec": {"transitionName": "node-shutdown", "bindingNode": HERE}}
        (await account.post(EVENTS, own, dryRun="All")).expect(201)
        (await account.post(LEASES, {**lease, "metadata": {"name": HERE}}, dryRun="All")).expect(201, 409)
        cordon = {"spec": {"unschedulable": True}}
        (await account.patch(f"{NODES}/{HERE}", cordon, dryRun="All")).expect(200)
    (await admin.delete(f"{EVENTS}/theirs")).expect(200)


async def test_a_manager_works_and_its_follower_is_fenced(
    admin: RawApi, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("manager")
    kubeconfig = write_kubeconfig(folder / "kc", await access_of(admin, MANAGER))
    pod = (await admin.get(f"{PODS}/{MANAGER}-{HERE}")).expect(200)["metadata"]
    [deployment] = [
        one for one in bundle.manifests(PLAN) if one["kind"] == "Deployment" and one["metadata"]["name"] == MANAGER
    ]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    arguments = [one for one in arguments if not one.startswith(("--bind-address", "--secure-port"))]
    environment = ["/usr/bin/env", f"POD_NAME={pod['name']}", f"POD_UID={pod['uid']}"]
    program = [sys.executable, "-m", "kube_fairlead.cli", *arguments, f"--kubeconfig={kubeconfig}", "--secure-port=0"]
    manager = ManagedProcess("manager", [*environment, *program], folder=folder)
    lost = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleEvent",
        "metadata": {"name": "lost", "finalizers": ["example.com/seen"]},
        "spec": {"transitionName": "nothing", "bindingNode": "node-gone"},
    }
    (await admin.post(EVENTS, lost)).expect(201)
    claim = {"status": {"claimStatus": "Claimed", "claimedBy": "node/node-gone", "nodeUID": "of-a-node-before"}}
    (await admin.patch(f"{EVENTS}/lost/status", claim)).expect(200)
    manager.start()
    try:
        ended = await admin.poll(
            f"{EVENTS}/lost", lambda answer: answer.json.get("status", {}).get("claimStatus") == "Failed"
        )
        assert "no longer exists" in ended.json["status"]["message"]
        async with RawApi(await access_of(admin, MANAGER, THERE)) as follower, CLOCK.timeout(60):
            code = 0
            while code != 403:
                current = (await follower.get(f"{EVENTS}/lost")).expect(200)
                answer = await follower.put(f"{EVENTS}/lost", current, dryRun="All")
                code = answer.code
        assert f"pod {MANAGER}-{THERE} does not hold" in answer.text
    finally:
        await manager.stop()
        (await admin.patch(f"{EVENTS}/lost", {"metadata": {"finalizers": None}})).expect(200)
    assert "forbidden" not in manager.last_words()


async def test_uninstalling_leaves_nothing_stuck(isolated_control_plane: ControlPlane) -> None:
    plan = dataclasses.replace(PLAN, eviction_webhook=True)
    await install(isolated_control_plane, plan, pods=False)
    steps: list[removal.RemovalStep] = []
    async with (
        RawApi(isolated_control_plane.access(), timeout_seconds=120) as api,
        isolated_control_plane.client() as client,
    ):
        for name in ("claimed", "waiting", "finished"):
            body = {
                "apiVersion": "lifecycle.k8s.io/v1alpha1",
                "kind": "LifecycleEvent",
                "metadata": {"name": name, "finalizers": ["lifecycle.k8s.io/claimed"] if name != "waiting" else []},
                "spec": {"transitionName": "nothing", "bindingNode": HERE},
            }
            (await api.post(EVENTS, body)).expect(201)
        claim = {"status": {"claimStatus": "Claimed", "claimedBy": f"node/{HERE}"}}
        (await api.patch(f"{EVENTS}/claimed/status", claim)).expect(200)
        (await api.patch(f"{EVENTS}/finished/status", {"status": {"claimStatus": "Failed"}})).expect(200)
        await removal.remove(client, plan, patience_seconds=30, report=steps.append)
        assert removal.EventFailed("claimed") in steps
        for manifest in bundle.manifests(plan):
            (await api.get(path_of(manifest))).expect(200 if manifest in bundle.anchors(plan) else 404)
        await removal.remove(client, plan, patience_seconds=30, report=steps.append)


async def test_uninstalling_lets_claimed_events_come_to_their_end(isolated_control_plane: ControlPlane) -> None:
    await install(isolated_control_plane, PLAN, pods=False)
    steps: list[removal.RemovalStep] = []
    with contextlib.contextmanager(make_site)(isolated_control_plane, HERE) as site:
        site.start_driver()
        site.start_agent()
        async with (
            RawApi(isolated_control_plane.access(), timeout_seconds=120) as api,
            isolated_control_plane.client() as client,
            site.watching(api) as story,
            tasks.TaskScope("test") as scope,
        ):
            uid = (await site.ask(api, "under-way", hold="end"))["metadata"]["uid"]
            await until(lambda: "called-end" in site.effects(uid))
            removing = removal.remove(client, PLAN, patience_seconds=100, report=steps.append)
            scope.start(removing, name="remove")
            await api.poll(f"{EVENTS}/under-way", lambda got: "deletionTimestamp" in got.json["metadata"])
            # What users ask for meanwhile goes too.
            await site.ask(api, "made-meanwhile")
            await api.poll(f"{EVENTS}/made-meanwhile", lambda got: got.code == 404)
            (await api.get(f"{EVENTS}/under-way")).expect(200)
            site.release("under-way")
            await story.until("under-way", "gone")
    assert "Succeeded" in story.seen["under-way"]
    assert not [step for step in steps if isinstance(step, removal.EventFailed)]


async def test_uninstalling_ends_though_events_keep_coming(
    isolated_control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await install(isolated_control_plane, PLAN, pods=False)
    monkeypatch.setattr(removal, "_LATE_SECONDS", 1.0)
    spec = {"transitionName": "nothing", "bindingNode": HERE}

    async def make_more(api: RawApi) -> None:
        for number in itertools.count():
            body = {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "LifecycleEvent", "spec": spec}
            # Held by the finalizer of a claim, so that there is always one left.
            metadata = {"name": f"more-{number}", "finalizers": ["lifecycle.k8s.io/claimed"]}
            (await api.post(EVENTS, {**body, "metadata": metadata})).expect(201)

    async with (
        RawApi(isolated_control_plane.access(), timeout_seconds=120) as api,
        isolated_control_plane.client() as client,
        tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope,
    ):
        scope.start(make_more(api), name="user")
        await api.poll(f"{EVENTS}/more-0", lambda got: got.code == 200)
        with pytest.raises(removal.Leftovers, match="LifecycleEvents are still being created: more-"):
            await removal.remove(client, PLAN, patience_seconds=0, report=lambda _step: None)
