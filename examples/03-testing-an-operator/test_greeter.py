"""The operator against a real API server, which the fixture `fairlead_apiserver` starts for each test."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kopf.testing import KopfRunner
from kubernetes import client, config, watch

HERE = Path(__file__).parent
GREETINGS = ("example.com", "v1", "default", "greetings")


@pytest.fixture
def cluster(fairlead_apiserver: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of the official library; the operator finds the same server through KUBECONFIG."""
    monkeypatch.setenv("KUBECONFIG", str(fairlead_apiserver.kubeconfig))
    connected = config.new_client_from_config(config_file=str(fairlead_apiserver.kubeconfig))
    definition = yaml.safe_load((HERE / "definition.yaml").read_text())
    extensions = client.ApiextensionsV1Api(connected)
    extensions.create_custom_resource_definition(definition)
    for event in watch.Watch().stream(extensions.list_custom_resource_definition, timeout_seconds=30):
        if any(entry.type == "Established" for entry in event["object"].status.conditions or []):
            break
    yield client.CustomObjectsApi(connected)
    connected.close()


def wait_for(cluster: Any, text: str) -> dict[str, Any]:
    """The Greeting, once its status says this."""
    for event in watch.Watch().stream(cluster.list_namespaced_custom_object, *GREETINGS, timeout_seconds=30):
        found: dict[str, Any] = event["object"]
        if found.get("status", {}).get("text") == text:
            return found
    raise AssertionError(f"no line contains {text!r}")


def greeting(name: str) -> dict[str, Any]:
    """A Greeting."""
    metadata = {"name": "first"}
    return {"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": metadata, "spec": {"name": name}}


def test_it_greets_and_greets_again(cluster: Any) -> None:
    with KopfRunner(["run", "--namespace=default", "--standalone", str(HERE / "greeter.py")]) as operator:
        cluster.create_namespaced_custom_object(*GREETINGS, greeting("Ada"))
        wait_for(cluster, "Hello, Ada!")
        cluster.patch_namespaced_custom_object(*GREETINGS, "first", {"spec": {"name": "Grace"}})
        wait_for(cluster, "Hello, Grace!")
    assert operator.exception is None


def test_it_catches_up_after_the_server_was_away(cluster: Any, fairlead_apiserver: Any) -> None:
    """Nothing is mocked, so this is one line: the server is killed, not stopped, and starts again on its data."""
    cluster.create_namespaced_custom_object(*GREETINGS, greeting("Ada"))
    asyncio.run(fairlead_apiserver.restart(hard=True))
    with KopfRunner(["run", "--namespace=default", "--standalone", str(HERE / "greeter.py")]):
        wait_for(cluster, "Hello, Ada!")


def test_the_schema_refuses_nobody(cluster: Any) -> None:
    with pytest.raises(client.ApiException) as refused:
        cluster.create_namespaced_custom_object(*GREETINGS, greeting(""))
    assert refused.value.status == 422
    assert "spec.name in body should be at least 1 chars long" in str(refused.value.body)
