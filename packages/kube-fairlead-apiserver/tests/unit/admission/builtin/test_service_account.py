from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.tasks import TaskScope
from tests.unit.admission.plane import Plane, pod, running, service_account

PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


async def test_a_pod_gets_the_default_account_and_its_token(plane: Plane) -> None:
    made = await plane.create(pod("a", initContainers=[{"name": "first", "image": "example.com/first"}]))
    spec = made["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert [set(source) for source in volume["projected"]["sources"]] == [
        {"serviceAccountToken"},
        {"configMap"},
        {"downwardAPI"},
    ]
    assert volume["projected"]["defaultMode"] == 420
    assert volume["projected"]["sources"][0]["serviceAccountToken"] == {"expirationSeconds": 3607, "path": "token"}
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert container["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": PATH}]


@pytest.mark.parametrize(
    ("account", "spec", "mounted"),
    [
        ({}, {}, True),
        ({"automountServiceAccountToken": False}, {}, False),
        ({"automountServiceAccountToken": False}, {"automountServiceAccountToken": True}, True),
        ({}, {"automountServiceAccountToken": False}, False),
    ],
)
async def test_pod_and_account_say_whether_a_token_is_wanted(
    plane: Plane, account: dict[str, Any], spec: dict[str, Any], mounted: bool
) -> None:
    await plane.create(service_account("robot", "work", **account))
    made = await plane.create(pod("a", serviceAccountName="robot", **spec))
    assert bool(made["spec"].get("volumes")) is mounted


async def test_a_mount_of_its_own_is_left_alone(plane: Plane) -> None:
    mount = {"name": "mine", "mountPath": PATH}
    containers = [{"name": "main", "image": "example.com/main", "volumeMounts": [mount]}]
    made = await plane.create(pod("a", containers=containers, volumes=[{"name": "mine", "emptyDir": {}}]))
    assert [volume["name"] for volume in made["spec"]["volumes"]] == ["mine"]


async def test_pull_secrets_come_from_the_account_unless_the_pod_has_some(plane: Plane) -> None:
    await plane.create(service_account("robot", "work", imagePullSecrets=[{"name": "registry"}]))
    made = await plane.create(pod("a", serviceAccountName="robot"))
    assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    own = await plane.create(pod("b", serviceAccountName="robot", imagePullSecrets=[{"name": "own"}]))
    assert own["spec"]["imagePullSecrets"] == [{"name": "own"}]


async def test_an_account_that_is_not_there_is_refused_at_once(plane: Plane) -> None:
    with pytest.raises(errors.Forbidden) as raised:
        await plane.create(pod("a", serviceAccountName="nobody"))
    assert raised.value.message == (
        'pods "a" is forbidden: error looking up service account work/nobody: serviceaccount "nobody" not found'
    )


async def test_a_pod_waits_for_the_default_account_of_a_young_namespace() -> None:
    async with running() as plane:
        await plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "young"}})
        async with TaskScope("test") as scope:
            creating = scope.start(plane.create(pod("a", "young")), name="pod")
            await plane.create(service_account("default", "young"))
        assert creating.result()["spec"]["serviceAccountName"] == "default"


async def test_it_does_not_wait_for_ever() -> None:
    clock = VirtualClock()
    async with running(clock=clock) as plane:
        await plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "young"}})

        async def refused() -> str:
            with pytest.raises(errors.Forbidden) as raised:
                await plane.create(pod("a", "young"))
            return raised.value.message

        async with TaskScope("test") as scope:
            creating = scope.start(refused(), name="pod")
            await clock.settle()
            assert not creating.done()
            await clock.advance(2)
        assert 'serviceaccount "default" not found' in creating.result()


async def test_a_mirror_pod_is_taken_as_it_is(plane: Plane) -> None:
    mirror = pod("a")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    made = await plane.create(mirror)
    assert "serviceAccountName" not in made["spec"]
    assert "volumes" not in made["spec"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
        ({"imagePullSecrets": [{"name": "x"}]}, "a mirror pod may not reference secrets"),
        (
            {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ],
)
async def test_a_mirror_pod_may_not_lean_on_the_api(plane: Plane, spec: dict[str, Any], why: str) -> None:
    mirror = pod("a", **spec)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    with pytest.raises(errors.Forbidden, match=why):
        await plane.create(mirror)
