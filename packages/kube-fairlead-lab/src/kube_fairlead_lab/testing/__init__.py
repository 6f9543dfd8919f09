"""Control planes for tests: the embedded one, and real Kubernetes.

What belongs here: starting, stopping and killing a whole control plane on loopback (`EmbeddedControlPlane`,
`KubeControlPlane`, one protocol: `ControlPlane`), credentials for it, a plain HTTP view of it (`rawhttp`), and the
pytest plugin (`kube_fairlead_lab.testing.plugin`) that offers all this to
Fairlead's own tests and to authors of operators.
What never belongs here: anything that a component needs at run time. Nothing below imports this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kube_fairlead_lab.testing.control_plane import Access, ControlPlane, ControlPlaneFailed
    from kube_fairlead_lab.testing.embedded import EmbeddedControlPlane, EmbeddedOptions
    from kube_fairlead_lab.testing.kube import KubeControlPlane, KubeOptions
    from kube_fairlead_lab.testing.real import import_real, require_real

__all__ = [
    "Access",
    "ControlPlane",
    "ControlPlaneFailed",
    "EmbeddedControlPlane",
    "EmbeddedOptions",
    "KubeControlPlane",
    "KubeOptions",
    "import_real",
    "require_real",
]

_HOMES = {
    "Access": "control_plane",
    "ControlPlane": "control_plane",
    "ControlPlaneFailed": "control_plane",
    "EmbeddedControlPlane": "embedded",
    "EmbeddedOptions": "embedded",
    "KubeControlPlane": "kube",
    "KubeOptions": "kube",
    "import_real": "real",
    "require_real": "real",
}


def __getattr__(name: str) -> Any:
    # pytest loads the plugin, and so this package, in every project of the environment: nothing is imported early.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
