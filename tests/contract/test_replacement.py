"""PUT and DELETE, kind by kind: what a replacement may leave open, and what becomes of what is not there."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Define, Refused, inside

Json = dict[str, Any]

LEASES, SERVICES = "leases.coordination.k8s.io/v1", "services.v1"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
MATCH = {"resourceRules": [{"apiGroups": ["x"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}

# Kinds that a PUT must say the version of.
CONDITIONAL: dict[str, Json] = {
    RUNTIMES: {"handler": "a"},
    LEASES: {},
    "poddisruptionbudgets.policy/v1": {"spec": {"minAvailable": 1}},
    f"{HOOKS}/mutatingwebhookconfigurations": {},
    f"{HOOKS}/validatingwebhookconfigurations": {},
    f"{HOOKS}/validatingadmissionpolicies": {
        "spec": {"validations": [{"expression": "true"}], "matchConstraints": MATCH}
    },
    f"{HOOKS}/validatingadmissionpolicybindings": {"spec": {"policyName": "x", "validationActions": ["Deny"]}},
    "/apis/storage.k8s.io/v1/csidrivers": {"spec": {}},
    "/apis/storage.k8s.io/v1/csinodes": {"spec": {"drivers": []}},
    "csistoragecapacities.storage.k8s.io/v1": {"storageClassName": "a"},
    "/apis/storage.k8s.io/v1/volumeattachments": {
        "spec": {"attacher": "a", "nodeName": "b", "source": {"persistentVolumeName": "c"}}
    },
}
# Kinds of which the last state is shown to whoever deletes them.
SHOWN_LAST: dict[str, Json] = {
    "serviceaccounts.v1": {},
    "resourcequotas.v1": {"spec": {}},
    "podtemplates.v1": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}},
    "resourceclaims.resource.k8s.io/v1": {"spec": {}},
    "resourceclaimtemplates.resource.k8s.io/v1": {"spec": {"spec": {}}},
    "/apis/resource.k8s.io/v1/deviceclasses": {"spec": {}},
    "/apis/storage.k8s.io/v1/storageclasses": {"provisioner": "x"},
    "/apis/storage.k8s.io/v1/csinodes": {"spec": {"drivers": []}},
    "/apis/storage.k8s.io/v1/csidrivers": {"spec": {}},
}


@pytest.mark.parametrize("path", CONDITIONAL)
async def test_a_replacement_says_what_it_replaces(api: RawApi, namespace: str, path: str) -> None:
    body = {"metadata": {"name": namespace}, **CONDITIONAL[path]}
    path = inside(namespace, path)
    made = (await api.post(path, body)).expect(201)
    status = (await api.put(f"{path}/{namespace}", body)).expect(422)
    plural, group = path.rpartition("/")[2], path.split("/")[2]
    assert status["message"] == (
        f'{plural}.{group} "{namespace}" is invalid: '
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    )
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    # A budget's status may have been written since.
    assert (await api.put(f"{path}/{namespace}", body)).code in {200, 409}
    (await api.delete(f"{path}/{namespace}")).expect(200)


async def test_so_does_one_of_a_custom_resource(api: RawApi, define: Define) -> None:
    defined = await define(shared=True)
    (await api.post(defined.path(), defined.make("w"))).expect(201)
    status = (await api.put(f"{defined.path()}/w", defined.make("w"))).expect(422)
    assert status["details"]["kind"] == defined.plural
    (await api.put(f"{defined.path()}/absent", defined.make("absent"))).expect(404)


@pytest.mark.parametrize("path", SHOWN_LAST)
async def test_what_was_deleted_is_shown(api: RawApi, namespace: str, path: str) -> None:
    body = {"metadata": {"name": namespace}, **SHOWN_LAST[path]}
    path = inside(namespace, path)
    made = (await api.post(path, body)).expect(201)
    gone = (await api.delete(f"{path}/{namespace}")).expect(200)
    assert (gone["kind"], gone["metadata"]["uid"]) == (made["kind"], made["metadata"]["uid"])


async def test_a_replacement_makes_what_is_not_there(api: RawApi, namespace: str) -> None:
    path = inside(namespace, LEASES)
    # Whatever version it says it was made from.
    made = (await api.put(f"{path}/a", {"metadata": {"name": "a", "resourceVersion": "1"}})).expect(201)
    (await api.delete(f"{path}/a")).expect(200)
    # But not one that was meant to be a certain object.
    status = (await api.put(f"{path}/a", made)).expect(409)
    uid = made["metadata"]["uid"]
    assert status["message"].endswith(f"Precondition failed: UID in precondition: {uid}, UID in object meta: ")
    (await api.put(f"{inside(namespace, 'configmaps.v1')}/a", {"metadata": {"name": "a"}})).expect(404)


async def test_runtimes(api: RawApi, namespace: str, refused: Refused) -> None:
    path, body = f"{RUNTIMES}/{namespace}", {"metadata": {"name": namespace}, "handler": "a"}
    made = (await api.put(path, body)).expect(201)
    assert made["handler"] == "a"
    assert await refused(RUNTIMES, {"handler": "b"}, patch=namespace) == [
        'handler: Invalid value: "b": field is immutable'
    ]
    (await api.delete(path)).expect(200)
    assert await refused(RUNTIMES, {"handler": ""}) == ["handler: Required value"]
    said = await refused(RUNTIMES, {"handler": "A_b", "scheduling": {"nodeSelector": {"a b": "c"}}})
    assert [line.partition(" must consist")[0] for line in said] == [
        'handler: Invalid value: "A_b": a lowercase RFC 1123 label',
        'scheduling.nodeSelector: Invalid value: "a b": name part',
    ]


async def test_templates_on_their_own(api: RawApi, namespace: str, refused: Refused) -> None:
    path = inside(namespace, "podtemplates.v1")
    template = {"spec": {"containers": [{"name": "a", "image": "b"}]}}
    made = (await api.post(path, {"metadata": {"name": "t"}, "template": template})).expect(201)
    assert (made["metadata"]["generation"], made["template"]["spec"]["restartPolicy"]) == (1, "Always")
    made["template"]["spec"]["containers"][0]["image"] = "c"
    assert (await api.put(f"{path}/t", made)).expect(200)["metadata"]["generation"] == 2
    assert await refused("podtemplates.v1", {"template": {"spec": {"containers": [{"name": "a"}]}}}) == [
        "template.spec.containers[0].image: Required value"
    ]
