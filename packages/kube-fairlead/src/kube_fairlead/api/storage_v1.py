"""storage.k8s.io/v1: volumes attached to nodes.

Upstream: k8s.io/api@v0.36.4/storage/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import Part, Time, always, mapping

__all__ = [
    "VolumeAttachment",
    "VolumeAttachmentSource",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeError",
]


class VolumeAttachmentSource(Part):
    """Which volume."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Part):
    """Which volume is to be attached where, and by whom."""

    attacher: str = always("")
    source: VolumeAttachmentSource = always(VolumeAttachmentSource())
    node_name: str = always("")


class VolumeError(Part):
    """What went wrong last."""

    time: Time | None = None
    message: str = ""
    error_code: int | None = None


class VolumeAttachmentStatus(Part):
    """Whether it is attached."""

    attached: bool = always(False)
    attachment_metadata: dict[str, str] = mapping()
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(KubeObject):
    """A volume's tie to a node."""

    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("VolumeAttachment")
    spec: VolumeAttachmentSpec = always(VolumeAttachmentSpec())
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
