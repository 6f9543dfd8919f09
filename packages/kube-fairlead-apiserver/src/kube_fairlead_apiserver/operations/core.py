"""The parts that every operation uses, and the options of one write."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kube_fairlead.api.json_object import Json
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import Ids
from kube_fairlead_apiserver.admission.chain import Chain
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.offload import Offload
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.store import Store

__all__ = ["Core", "WriteOptions", "WriteResult"]


class Core(msgspec.Struct, eq=False):
    """The server without HTTP."""

    store: Store
    catalog: Catalog
    clock: Clock
    ids: Ids
    admission: Chain
    # Called for every delete that recorded a grace period on a custom resource.
    on_graceful_deletion: Callable[[Resource], None] = lambda _resource: None
    # Where the steps of large requests run.
    offload: Offload = msgspec.field(default_factory=Offload)


class WriteOptions(msgspec.Struct):
    """The options of one write, and its user. ``warnings`` collects warnings for the client."""

    user: UserInfo
    field_manager: str = ""
    dry_run: bool = False
    for_deletion: bool = False  # a deletion follows from it, so it is accepted on a full disk, too
    wire: Json = {}  # the options object in the AdmissionReview
    warnings: list[str] = []
    audit_annotations: dict[str, str] = {}

    def with_kind(self, kind: str) -> WriteOptions:
        """Return the same, shown to admission webhooks as options of another kind: an update or apply that creates."""
        return msgspec.structs.replace(self, wire={**self.wire, "kind": kind})


class WriteResult(msgspec.Struct, eq=False):
    """The result of a write. ``entry`` is None when nothing was stored (dry run) or the object is deleted."""

    resource: Resource
    obj: Json
    entry: Entry | None = None
    created: bool = False
    removed: bool = False
