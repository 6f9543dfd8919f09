"""Every field of a Node, as the API server describes it, tried by each installed account's real token.

What a change is, is the API server's word: an administrator makes the same request as a dry run. What that would change
must be refused to the account, unless it is in the list of what its code writes; what it would not change is no matter.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest

from kube_fairlead.election.fence import FenceMode
from kube_fairlead.install import own_fields_policy
from kube_fairlead.install.installation import AGENT, CLAIMER, DRAIN, MANAGER, Installation, ShutdownGrace
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import pod as pod_manifest
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.installed import HERE, THERE, access_of, install, until_policed
from tests.planes import BOTH, make_plane
from tests.spec.kep5683.site import EVENTS, NODES

Json = dict[str, Any]

# Without a fence, so that managers write without a Lease.
PLAN = Installation(
    shutdown=ShutdownGrace(grace_period="60s", critical_pods="20s"),
    claimer=True,
    out_of_service_taint=True,
    fence=FenceMode.OFF,
)
FIELDS = own_fields_policy.node_fields(PLAN)
STRATEGIC = "application/strategic-merge-patch+json"
NOW = "2026-01-02T03:04:05Z"
EVENTS_API = "/apis/events.k8s.io/v1/namespaces/default/events"
TRANSITIONS = "/apis/lifecycle.k8s.io/v1alpha1/lifecycletransitions"
NODE_SPEC: Json = {"providerID": "cloud://here", "taints": [{"key": "others", "effect": "NoSchedule"}]}
NODE_STATUS: Json = {
    "capacity": {"cpu": "4"},
    "conditions": [
        {"type": kind, "status": "True", "reason": "Was", "message": "before"}
        for kind in ("Ready", "DiskPressure", "LifecycleTransition")
    ],
    "addresses": [{"type": "Hostname", "address": "here"}],
}
POD_STATUS: Json = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}],
    "podIP": "10.0.0.9",
    "podIPs": [{"ip": "10.0.0.9"}],
    "containerStatuses": [
        {
            "name": "main",
            "ready": True,
            "restartCount": 0,
            "image": "a",
            "imageID": "b",
            "state": {"running": {"startedAt": NOW}},
            # What kubelets say of every container, and the agent has no model of.
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
            "resources": {"requests": {"cpu": "10m"}},
        }
    ],
}


class Case(NamedTuple):
    """A patch of one field."""

    field: str
    patch: Json
    subresource: str = ""
    content_type: str = "application/merge-patch+json"

    def path(self, name: str) -> str:
        return f"{NODES}/{name}{self.subresource}"


@pytest.fixture(scope="module", params=BOTH)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    for made in watch_over(request.config, make_plane(request.param, tmp_path_factory.mktemp(request.param))):
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(prepare(made))
        yield made


async def prepare(plane: ControlPlane) -> None:
    await install(plane, PLAN)
    async with RawApi(plane.access(), timeout_seconds=120) as admin:
        for name in (HERE, THERE):
            known = {"labels": {"known": "label"}, "annotations": {"known": "annotation"}}
            patch = {"metadata": known, "spec": {**NODE_SPEC, "podCIDR": None}}
            (await admin.patch(f"{NODES}/{name}", patch)).expect(200)
            (await admin.patch(f"{NODES}/{name}/status", {"status": NODE_STATUS})).expect(200)
            pod = pod_manifest(f"web-{name}", node_name=name)
            (await admin.post("/api/v1/namespaces/default/pods", pod)).expect(201)
            path = f"/api/v1/namespaces/default/pods/web-{name}/status"
            (await admin.patch(path, {"status": POD_STATUS})).expect(200)


@pytest.fixture
async def admin(plane: ControlPlane) -> AsyncIterator[RawApi]:
    async with RawApi(plane.access(), timeout_seconds=120) as session:
        yield session


# What the schema alone does not say how to fill in.
FILLED: Json = {
    "podCIDR": "10.9.0.0/24",
    "podCIDRs": ["10.9.0.0/24"],
    "externalID": "changed",
    "taints": [*NODE_SPEC["taints"], {"key": "more", "effect": "NoExecute"}],
    "conditions": [*NODE_STATUS["conditions"], {"type": "More", "status": "True"}],
    "labels": {"node-restriction.kubernetes.io/changed": "x"},
    "annotations": {"changed.example.com/x": "x"},
    "finalizers": ["example.com/changed"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x"}],
    "allocatable": {"cpu": "7"},
    "capacity": {"cpu": "7"},
    "images": [{"names": ["changed"], "sizeBytes": 7}],
    "phase": "Running",
    "volumesAttached": [{"name": "changed", "devicePath": "/dev/changed"}],
    "volumesInUse": ["changed"],
    "addresses": [{"type": "InternalIP", "address": "10.9.9.9"}],
}


def example(schema: Json, schemas: Json, depth: int = 0) -> Any:
    """Something that fits a schema, with every field filled in."""
    for reference in [schema.get("$ref"), *(one.get("$ref") for one in schema.get("allOf", []))]:
        if reference:
            return example(schemas[reference.rpartition("/")[2]], schemas, depth + 1)
    if "properties" in schema and depth < 6:
        return {name: example(one, schemas, depth + 1) for name, one in schema["properties"].items()}
    match schema.get("type"), schema.get("format", ""):
        case "string", "date-time":
            return NOW
        case "string", _:
            return "changed"
        case "boolean", _:
            return True
        case "integer" | "number", _:
            return 7
        case "array", _:
            return [example(schema["items"], schemas, depth + 1)]
        case _:
            return {}


async def cases(admin: RawApi) -> list[Case]:
    """Every field set and every field removed, through the node and through its status."""
    schemas = (await admin.get("/openapi/v3/api/v1")).expect(200)["components"]["schemas"]
    parts = {
        "metadata": schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"],
        "spec": schemas["io.k8s.api.core.v1.NodeSpec"]["properties"],
        "status": schemas["io.k8s.api.core.v1.NodeStatus"]["properties"],
    }
    made = []
    for part, properties in parts.items():
        for name, schema in properties.items():
            value = FILLED.get(name, example(schema, schemas))
            for subresource in ("", "/status"):
                made += [Case(f"{part}.{name}", {part: {name: one}}, subresource) for one in (value, None)]
    labels = ["kubernetes.io/hostname", "node-role.kubernetes.io/control-plane", "topology.kubernetes.io/zone"]
    made += [Case("labels", {"metadata": {"labels": {label: "x"}}}, sub) for label in labels for sub in ("", "/status")]
    known = {"labels": {"known": None}, "annotations": {"known": "other"}}
    made += [Case(f"{name}.known", {"metadata": {name: value}}) for name, value in known.items()]
    made += [
        Case(f"taint {one}", {"spec": {"taints": one}}) for one in ([], [{"key": "others", "effect": "NoExecute"}])
    ]
    kinds = ("Ready", "DiskPressure", "NetworkUnavailable")
    for kind, status in [(kind, status) for kind in kinds for status in ("True", "False", "Unknown")]:
        changed = {"status": {"conditions": [{"type": kind, "status": status, "reason": "Changed"}]}}
        made.append(Case(f"condition {kind}={status}", changed, "/status", STRATEGIC))
    gone = {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
    return [*made, Case("condition Ready removed", gone, "/status", STRATEGIC)]


def without_bookkeeping(node: Json) -> Json:
    kept = copy.deepcopy(node)
    for name in ("managedFields", "resourceVersion", "generation"):
        kept["metadata"].pop(name, None)
    return kept


NOT_READY = "condition Ready=False"
# Fields that a request could change where nothing stops it; that the cases change these keeps the test honest.
CHANGEABLE = {
    "metadata.labels",
    "metadata.annotations",
    "metadata.finalizers",
    "metadata.ownerReferences",
    "spec.taints",
    "spec.unschedulable",
    "spec.podCIDRs",
    "status.addresses",
    "status.allocatable",
    "status.capacity",
    "status.conditions",
    "status.daemonEndpoints",
    "status.images",
    "status.nodeInfo",
    "status.volumesAttached",
    "status.volumesInUse",
    "labels",
    "condition DiskPressure=False",
    "condition Ready=Unknown",
    NOT_READY,
}


@pytest.mark.parametrize("name", [AGENT, DRAIN, CLAIMER, MANAGER])
async def test_no_account_changes_more_of_a_node_than_its_work(admin: RawApi, name: str) -> None:
    before = {node: without_bookkeeping((await admin.get(f"{NODES}/{node}")).expect(200)) for node in (HERE, THERE)}
    allowed = {"spec.unschedulable"} if FIELDS[name].cordon else set()
    allowed |= {NOT_READY} if FIELDS[name].not_ready else set()
    wrong, changed = [], set()
    async with RawApi(await access_of(admin, name)) as account:
        await until_policed(account)
        for case in await cases(admin):
            for node in (HERE, THERE):
                meant = await admin.patch(case.path(node), case.patch, case.content_type, dryRun="All")
                if meant.code != 200 or without_bookkeeping(meant.json) == before[node]:
                    continue
                changed.add(case.field)
                answer = await account.patch(case.path(node), case.patch, case.content_type, dryRun="All")
                own = node == HERE or name in {CLAIMER, MANAGER}
                # A right to write the status at all is the agent's and the claimer's.
                is_right = "/status" not in case.path(node) or FIELDS[name].conditions
                expected = 200 if case.field in allowed and own and is_right else 403
                if answer.code != expected:
                    wrong.append(f"{case}: {answer.code} {answer.text[:300]}")
    assert not wrong, "\n".join(wrong)
    assert changed >= CHANGEABLE


def ours(name: str) -> list[Case]:
    """Everything in the list of what an account may change."""
    may = FIELDS[name]
    made = [Case(f"annotation {key}", {"metadata": {"annotations": {key: "x"}}}) for key in sorted(may.annotations)]
    made += [Case("cordon", {"spec": {"unschedulable": True}})] if may.cordon else []
    for taint in sorted(may.taints):
        key, _, effect = taint.partition(":")
        both = [*NODE_SPEC["taints"], {"key": key, "effect": effect}]
        made.append(Case(f"taint {taint}", {"spec": {"taints": both}}))
    for kind in sorted(may.conditions):
        patch = {"status": {"conditions": [{"type": kind, "status": "True", "reason": "Changed"}]}}
        made.append(Case(f"condition {kind}", patch, "/status", STRATEGIC))
    gone = {"status": {"conditions": [{"type": "LifecycleTransition", "$patch": "delete"}]}}
    return [*made, Case("condition removed", gone, "/status", STRATEGIC)] if may.conditions else made


@pytest.mark.parametrize("name", [AGENT, DRAIN, CLAIMER, MANAGER])
async def test_what_an_account_must_change_it_may(admin: RawApi, name: str) -> None:
    others = {case.field: case for other in FIELDS for case in ours(other)}
    mine = {case.field for case in ours(name)}
    async with RawApi(await access_of(admin, name)) as account:
        await until_policed(account)
        for field, case in others.items():
            answer = await account.patch(case.path(HERE), case.patch, case.content_type, dryRun="All")
            assert answer.code == (200 if field in mine else 403), f"{name}: {case}: {answer.text}"
            if name in {AGENT, DRAIN}:
                answer = await account.patch(case.path(THERE), case.patch, case.content_type, dryRun="All")
                assert answer.code == 403, f"{name} on another node: {case}: {answer.text}"


def ended(**container: Any) -> Json:
    old = POD_STATUS["containerStatuses"][0]
    terminated = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": NOW}}
    return {"containerStatuses": [{**old, "ready": False, "state": terminated, **container}]}


SAID_OF_PODS: list[tuple[Json, bool]] = [
    ({"phase": "Failed", "reason": "Terminated", "message": "x"}, True),
    ({"phase": "Succeeded", **ended()}, True),
    (ended(), True),
    ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]}, True),
    ({"conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}]}, True),
    ({"phase": "Pending"}, False),
    ({"phase": "Unknown"}, False),
    ({"conditions": [{"type": "Ready", "status": "True", "reason": "Changed"}]}, False),
    ({"conditions": [{"type": "Initialized", "status": "False"}]}, False),
    ({"conditions": [{"type": "Initialized", "$patch": "delete"}]}, False),
    ({"conditions": [{"type": "example.com/gate", "status": "True"}]}, False),
    (ended(imageID="other"), False),
    (ended(ready=True), False),
    ({"containerStatuses": [{**POD_STATUS["containerStatuses"][0], "image": "other"}]}, False),
    ({"podIP": "10.0.0.8", "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.8"}]}, False),
    ({"hostIP": "10.0.0.8", "hostIPs": [{"ip": "10.0.0.8"}]}, False),
    ({"observedGeneration": 7}, False),
    ({"startTime": NOW}, False),
    ({"initContainerStatuses": ended()["containerStatuses"]}, False),
]


async def test_an_agent_says_of_pods_that_they_end_and_nothing_else(admin: RawApi) -> None:
    path = "/api/v1/namespaces/default/pods/web-{}/status".format
    async with RawApi(await access_of(admin, AGENT)) as account:
        await until_policed(account)
        for said, is_right in SAID_OF_PODS:
            patch = {"status": said}
            (await admin.patch(path(HERE), patch, STRATEGIC, dryRun="All")).expect(200)
            answer = await account.patch(path(HERE), patch, STRATEGIC, dryRun="All")
            assert answer.code == (200 if is_right else 403), f"{said}: {answer.text}"
            assert (await account.patch(path(THERE), patch, STRATEGIC, dryRun="All")).code == 403
        for metadata in ({"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {"finalizers": ["example.com/a"]}):
            answer = await account.patch(path(HERE), {"metadata": metadata}, dryRun="All")
            assert answer.code == 403, f"{metadata}: {answer.text}"


def transition(name: str, driver: str = "example.com/mine", **spec: Any) -> Json:
    metadata = {"name": name, "annotations": {"lifecycle.fairlead.dev/published-by": driver}}
    return {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleTransition",
        "metadata": metadata,
        "spec": {"start": "a", "end": "b", "driver": driver, **(spec or {"allNodes": True})},
    }


async def test_transitions_are_of_drivers_of_the_own_node(admin: RawApi) -> None:
    for name in (HERE, THERE):
        (await admin.post(TRANSITIONS, transition(f"of-{name}", nodeName=name))).expect(201)
    async with RawApi(await access_of(admin, AGENT)) as account:
        await until_policed(account)
        (await account.post(TRANSITIONS, transition("t", nodeName=HERE), dryRun="All")).expect(201)
        (await account.post(TRANSITIONS, transition("t"), dryRun="All")).expect(201)
        (await account.post(TRANSITIONS, transition("t", nodeName=THERE), dryRun="All")).expect(403)
        (await account.delete(f"{TRANSITIONS}/of-{HERE}", dryRun="All")).expect(200)
        (await account.delete(f"{TRANSITIONS}/of-{THERE}", dryRun="All")).expect(403)
        renewed = {"metadata": {"annotations": {"lifecycle.fairlead.dev/offered-at": NOW}}}
        (await account.patch(f"{TRANSITIONS}/of-{HERE}", renewed, dryRun="All")).expect(200)
        (await account.patch(f"{TRANSITIONS}/of-{THERE}", renewed, dryRun="All")).expect(403)
        for metadata in ({"labels": {"a": "b"}}, {"finalizers": ["example.com/a"]}, {"annotations": {"a": "b"}}):
            answer = await account.patch(f"{TRANSITIONS}/of-{HERE}", {"metadata": metadata}, dryRun="All")
            assert answer.code == 403, f"{metadata}: {answer.text}"


async def test_lifecycle_events_are_claimed_for_the_own_node_and_stay_what_they_are(admin: RawApi) -> None:
    body = {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "LifecycleEvent"}
    own = {**body, "metadata": {"name": "mine"}, "spec": {"transitionName": "nothing", "bindingNode": HERE}}
    made: Json = (await admin.post(EVENTS, own)).expect(201)
    path = f"{EVENTS}/mine"
    async with RawApi(await access_of(admin, AGENT)) as account:
        await until_policed(account)
        spec = {"transitionName": "nothing", "bindingNode": HERE}
        asked: Json = {**body, "metadata": {"name": "asked"}, "spec": spec}
        (await account.post(EVENTS, asked, dryRun="All")).expect(403)
        asked["spec"] = {"transitionName": "node-shutdown", "bindingNode": HERE}
        (await account.post(EVENTS, asked, dryRun="All")).expect(201)
        for holder, code in ((HERE, 200), (THERE, 403)):
            claim = {"claimStatus": "Claimed", "driver": "x", "claimedBy": f"node/{holder}"}
            (await account.put(f"{path}/status", {**made, "status": claim}, dryRun="All")).expect(code)
        held = {**made["metadata"], "finalizers": ["lifecycle.k8s.io/claimed"]}
        (await account.put(path, {**made, "metadata": held}, dryRun="All")).expect(200)
        more: Json
        for more in ({"finalizers": ["example.com/a"]}, {"labels": {"a": "b"}}, {"annotations": {"a": "b"}}):
            answer = await account.put(path, {**made, "metadata": {**made["metadata"], **more}}, dryRun="All")
            assert answer.code == 403, f"{more}: {answer.text}"


def told(regarding: Json, instance: str = HERE, **more: Any) -> Json:
    metadata = {"name": "told", "namespace": "default"}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": metadata,
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "fairlead.dev/x",
        "reportingInstance": instance,
        "action": "a",
        "reason": "R",
        "type": "Normal",
        "regarding": regarding,
        **more,
    }


@pytest.mark.parametrize("name", [AGENT, DRAIN])
async def test_events_are_about_what_is_theirs(admin: RawApi, name: str) -> None:
    node = {node: {"apiVersion": "v1", "kind": "Node", "name": node} for node in (HERE, THERE)}
    event = {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "LifecycleEvent", "name": "x"}
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "x", "namespace": "default"}
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "namespace": "default"}
    is_agent = name == AGENT
    async with RawApi(await access_of(admin, name)) as account:
        await until_policed(account)
        for body, is_right in [
            (told(node[HERE]), True),
            (told(node[THERE]), False),
            (told(node[HERE], THERE), False),
            (told(event), is_agent),
            (told(event, related=node[HERE]), is_agent),
            (told(event, related=node[THERE]), False),
            (told(pod), not is_agent),
            (told(pod, THERE), False),
            (told(other), False),
            (told({"apiVersion": "v1", "kind": "Namespace", "name": "fairlead-node-lease"}), is_agent),
            (told({"apiVersion": "v1", "kind": "Namespace", "name": "default"}), False),
        ]:
            (await admin.post(EVENTS_API, body, dryRun="All")).expect(201)
            answer = await account.post(EVENTS_API, body, dryRun="All")
            assert answer.code == (201 if is_right else 403), f"{body}: {answer.text}"
        for instance, code in ((HERE, 200), (THERE, 403)):
            made = told(node[instance], instance)
            made["metadata"] = {**made["metadata"], "name": f"told-{name}-{instance}"}
            (await admin.post(EVENTS_API, made)).expect(201)
            again = {"series": {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}}
            (await account.patch(f"{EVENTS_API}/told-{name}-{instance}", again)).expect(code)
