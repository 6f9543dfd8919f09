"""The two control planes that the shared suites run on, and how each is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from kube_fairlead_lab.testing import ControlPlane, EmbeddedControlPlane, KubeControlPlane, KubeOptions, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.components import EMBEDDED_CONTROLLERS

__all__ = ["BOTH", "make_plane"]

BOTH = ["embedded", pytest.param("kube", marks=pytest.mark.kube)]


def make_plane(kind: str, folder: Path) -> ControlPlane:
    """A kube plane has exactly the controllers beside it that the embedded server has inside."""
    if kind == "embedded":
        return EmbeddedControlPlane(folder)
    binaries = KubeBinaries.find()
    missing = binaries.missing("etcd", "kube-apiserver", "kube-controller-manager")
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    return KubeControlPlane(folder, KubeOptions(controllers=EMBEDDED_CONTROLLERS), binaries=binaries)
