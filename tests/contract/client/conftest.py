"""The client of the administrator, and of others."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator

import pytest

from kube_fairlead import client
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base.environment import Environment
from kube_fairlead.client.client import Client
from kube_fairlead_lab.testing import ControlPlane

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")


def connect(kubeconfig: pathlib.Path) -> Client:
    """A client that depends on nothing but the file."""
    return client.connect(kubeconfig_path=kubeconfig, environment=Environment({}))


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with connect(control_plane.kubeconfig) as connected:
        yield connected
