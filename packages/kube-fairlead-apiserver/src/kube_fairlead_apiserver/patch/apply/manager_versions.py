"""A kind in several versions: a manager owns fields in the version that it wrote in.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/versionconverter.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/merge/update.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.patch.apply.comparison import Comparison
from kube_fairlead_apiserver.schema.model import SchemaNode

__all__ = ["Changes", "Version", "Versions"]


class Version(NamedTuple):
    """One served version of a kind."""

    node: SchemaNode
    # What an object of the version that is being written looks like in this one. None: it looks the same.
    shown: Callable[[Json], Json] | None = None

    def show(self, obj: Json) -> Json:
        """Return the object in this version; nothing is nothing in any."""
        return obj if self.shown is None or not obj else self.shown(obj)


Versions = Mapping[str, Version]


class Changes:
    """What a write changed, in the terms of any version."""

    def __init__(
        self,
        compare: Callable[[SchemaNode, Json, Json], Comparison],
        own: str,
        node: SchemaNode,
        before: Json,
        after: Json,
        versions: Versions | None,
    ) -> None:
        """``own``: the version that is being written. Without ``versions`` all are taken to be alike."""
        self._compare = compare
        self._objects = before, after
        self._node = node
        self._versions = versions
        self.own = compare(node, before, after)
        self._known: dict[str, Comparison | None] = {own: self.own}

    def of(self, version: str) -> Comparison | None:
        """The changes as this version sees them; None for one that is not served any more."""
        if version not in self._known:
            self._known[version] = self._seen(version)
        return self._known[version]

    def _seen(self, version: str) -> Comparison | None:
        if self._versions is None:
            return self.own
        served = self._versions.get(version)
        if served is None:
            return None
        if served.node is self._node:
            return self.own
        before, after = self._objects
        return self._compare(served.node, served.show(before), served.show(after))
