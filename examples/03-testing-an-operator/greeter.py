"""A small operator: every Greeting is answered in its status."""

from typing import Any

import kopf


@kopf.on.login()
def login(**context: Any) -> Any:
    """Find the server through KUBECONFIG, or as a pod's own account."""
    return kopf.login_with_kubeconfig(**context) or kopf.login_with_service_account(**context)


@kopf.on.create("example.com", "v1", "greetings")
@kopf.on.update("example.com", "v1", "greetings")
def greet(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    """Write a greeting for the name in the spec."""
    patch.status["text"] = f"Hello, {spec['name']}!"
