from __future__ import annotations

import asyncio

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main
from kube_fairlead_lab.testing import EmbeddedControlPlane


def test_pod_ranges_in_use_are_rejected(
    fairlead_apiserver: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    async def register() -> None:
        metadata, spec = {"name": "other-3"}, {"podCIDR": "10.64.3.0/24", "podCIDRs": ["10.64.3.0/24"]}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}
        async with fairlead_apiserver.client() as client:
            await client.of(Node).create(wire.from_dict(Node, node))

    asyncio.run(register())
    arguments = ["hollow", f"--kubeconfig={fairlead_apiserver.kubeconfig}", "--nodes=5"]
    assert main(arguments, environment=Environment({})) == 1
    assert capsys.readouterr().err == (
        "Error: node other-3 already has the pod range 10.64.3.0/24 of hollow-3:"
        " use another first number, such as --first=4\n"
    )
