"""Pods for hollow nodes: a Deployment with replicas on every node."""

from __future__ import annotations

import contextlib

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.apps_v1 import Deployment
from kube_fairlead.api.core_v1 import Namespace
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.client.client import Client

__all__ = ["FILLING", "fill"]

FILLING = "hollow"
"""The name of the Deployment, and of its namespace."""


async def fill(client: Client, replicas: int) -> None:
    """Create the Deployment, or scale it to this number of replicas."""
    with contextlib.suppress(api_errors.AlreadyExists):
        await client.of(Namespace).create(Namespace(metadata=ObjectMeta(name=FILLING)))
    labels = {"app": FILLING}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    wanted = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": FILLING, "namespace": FILLING},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    # Spread evenly by a real scheduler; the hollow one does so anyway.
                    "topologySpreadConstraints": [spread],
                    "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}],
                },
            },
        },
    }
    await client.of(Deployment).apply(
        wire.from_dict(Deployment, wanted), field_manager="fairlead-hollow", force=True, namespace=FILLING
    )
