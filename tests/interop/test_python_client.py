"""The official Python client: typed, dynamic, watching."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kube_fairlead_lab.testing import ControlPlane

# It is generated and only half typed: a type checker would complain about every second call.
client: Any = importlib.import_module("kubernetes.client")
config: Any = importlib.import_module("kubernetes.config")
dynamic: Any = importlib.import_module("kubernetes.dynamic")
watch: Any = importlib.import_module("kubernetes.watch")

# The client's own code warns on current Python and libraries; that is not ours to fail on.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def official(control_plane: ControlPlane) -> Iterator[Any]:
    made = config.new_client_from_config(config_file=str(control_plane.kubeconfig))
    yield made
    made.close()


def container() -> Any:
    return client.V1Container(name="main", image="a:1")


async def test_typed_objects(official: Any, namespace: str) -> None:
    core = client.CoreV1Api(official)

    def work() -> None:
        body = client.V1Pod(
            metadata=client.V1ObjectMeta(name="p", labels={"app": "x"}), spec=client.V1PodSpec(containers=[container()])
        )
        made = core.create_namespaced_pod(namespace, body)
        assert made.status.phase == "Pending"
        listed = core.list_namespaced_pod(namespace, label_selector="app=x")
        assert [item.metadata.name for item in listed.items] == ["p"]
        patched = core.patch_namespaced_pod("p", namespace, {"metadata": {"labels": {"app": "y"}}})
        assert patched.metadata.labels == {"app": "y"}
        read = core.read_namespaced_pod("p", namespace)
        assert read.metadata.uid == made.metadata.uid
        core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)
        with pytest.raises(client.ApiException) as missing:
            core.read_namespaced_pod("p", namespace)
        assert missing.value.status == 404
        assert missing.value.reason == "Not Found"

    await asyncio.to_thread(work)


async def test_workloads_and_scale(official: Any, namespace: str) -> None:
    apps = client.AppsV1Api(official)

    def work() -> None:
        template = client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels={"app": "x"}), spec=client.V1PodSpec(containers=[container()])
        )
        selector = client.V1LabelSelector(match_labels={"app": "x"})
        spec = client.V1DeploymentSpec(replicas=1, selector=selector, template=template)
        apps.create_namespaced_deployment(
            namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="d"), spec=spec)
        )
        apps.patch_namespaced_deployment_scale("d", namespace, {"spec": {"replicas": 3}})
        assert apps.read_namespaced_deployment_scale("d", namespace).spec.replicas == 3

    await asyncio.to_thread(work)


async def test_eviction_and_status(official: Any, namespace: str) -> None:
    core = client.CoreV1Api(official)

    def work() -> None:
        body = client.V1Pod(
            metadata=client.V1ObjectMeta(name="p"), spec=client.V1PodSpec(containers=[container()], node_name="n")
        )
        core.create_namespaced_pod(namespace, body)
        core.patch_namespaced_pod_status("p", namespace, {"status": {"phase": "Running"}})
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p", namespace=namespace))
        core.create_namespaced_pod_eviction("p", namespace, eviction)
        assert core.read_namespaced_pod("p", namespace).metadata.deletion_timestamp is not None
        core.delete_namespaced_pod("p", namespace, grace_period_seconds=0)

    await asyncio.to_thread(work)


async def test_watch(official: Any, namespace: str) -> None:
    core = client.CoreV1Api(official)

    def follow(told: list[tuple[str, str]], started: threading.Event) -> None:
        version = core.list_namespaced_secret(namespace).metadata.resource_version
        started.set()
        watcher = watch.Watch()
        for event in watcher.stream(
            core.list_namespaced_secret, namespace, resource_version=version, timeout_seconds=30
        ):
            told.append((event["type"], event["object"].metadata.name))
            if len(told) == 3:
                watcher.stop()

    told: list[tuple[str, str]] = []
    started = threading.Event()
    following = asyncio.create_task(asyncio.to_thread(follow, told, started), name="follow")
    await asyncio.to_thread(started.wait)

    def work() -> None:
        core.create_namespaced_secret(namespace, client.V1Secret(metadata=client.V1ObjectMeta(name="s")))
        core.patch_namespaced_secret("s", namespace, {"stringData": {"k": "v"}})
        core.delete_namespaced_secret("s", namespace)

    await asyncio.to_thread(work)
    await following
    assert told == [("ADDED", "s"), ("MODIFIED", "s"), ("DELETED", "s")]


async def test_dynamic_client(official: Any, namespace: str) -> None:
    def work() -> None:
        found = dynamic.DynamicClient(official)
        maps = found.resources.get(api_version="v1", kind="ConfigMap")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
        assert maps.create(body=body, namespace=namespace).data.k == "v"
        applied = maps.server_side_apply(
            name="a", namespace=namespace, body={**body, "data": {"l": "w"}}, field_manager="tester"
        )
        assert dict(applied.data) == {"k": "v", "l": "w"}
        deployments = found.resources.get(api_version="apps/v1", kind="Deployment")
        assert deployments.get(namespace=namespace).items == []

    await asyncio.to_thread(work)


async def test_custom_objects(official: Any, namespace: str) -> None:
    extensions, custom = client.ApiextensionsV1Api(official), client.CustomObjectsApi(official)
    group = f"{namespace}.example.com"

    def work() -> None:
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        extensions.create_custom_resource_definition(definition)
        watcher = watch.Watch()
        named = f"metadata.name=widgets.{group}"
        for event in watcher.stream(extensions.list_custom_resource_definition, field_selector=named):
            conditions = event["object"].status.conditions or []
            if any(entry.type == "Established" and entry.status == "True" for entry in conditions):
                watcher.stop()
        body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
        for _ in range(500):  # the real server serves a definition a moment after it says so
            try:
                custom.create_namespaced_custom_object(group, "v1", namespace, "widgets", body)
                break
            except client.ApiException as error:
                if error.status != 404:
                    raise
        listed = custom.list_namespaced_custom_object(group, "v1", namespace, "widgets")
        assert [item["spec"] for item in listed["items"]] == [{"size": 1}]
        extensions.delete_custom_resource_definition(f"widgets.{group}")

    await asyncio.to_thread(work)
