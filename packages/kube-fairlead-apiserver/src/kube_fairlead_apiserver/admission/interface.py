"""The interface of admission plugins.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/interfaces.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/attributes.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["AdmissionPlugin", "Operation", "Reinvocation"]


class Reinvocation(msgspec.Struct):
    """State that the mutating phase keeps between its two rounds. The names are webhook names."""

    round: int = 0
    wanted: bool = False  # a later plugin changed the object: run the mutating plugins again
    asked: set[str] = set()  # called so far, of those that may be reinvoked
    due: set[str] = set()  # of these, those that have not seen the last change
    left: Json | None = None  # the object as the last webhook left it

    def changed(self) -> None:
        """Record that the object changed after earlier calls."""
        self.due |= self.asked
        self.asked.clear()


class Operation(msgspec.Struct, eq=False):
    """One write before it is stored. ``obj`` is None for DELETE and CONNECT without a body; ``old`` for CREATE."""

    operation: str  # CREATE UPDATE DELETE CONNECT
    resource: Resource
    user: UserInfo
    namespace: str
    name: str
    obj: Json | None
    old: Json | None
    subresource: str = ""
    options: Json = {}
    dry_run: bool = False
    warnings: list[str] = []
    # The kind of ``obj`` when it is not the resource's own (Eviction, Scale, Binding).
    kind: tuple[str, str, str] | None = None
    audit_annotations: dict[str, str] = {}
    # A webhook changed the object, so the kind's strategy must run again.
    patched: bool = False
    # Set by plugins that may request reinvocation.
    reinvocation: Reinvocation | None = None

    @property
    def is_namespace(self) -> bool:
        """Whether the object is a namespace."""
        return self.resource.plural == "namespaces" and not self.resource.group

    @property
    def scope(self) -> str:
        """The namespace as rules and webhooks see it: a namespace is in itself."""
        return self.name if self.is_namespace else self.namespace

    def forbidden(self, why: object) -> errors.Forbidden:
        """Return the Forbidden error that names the object."""
        return errors.forbidden(self.resource.group_resource, self._shown_name(), why)

    def _shown_name(self) -> str:
        metadata = (self.obj or {}).get("metadata") or {}
        return self.name or metadata.get("name") or metadata.get("generateName") or "Unknown"

    def annotate(self, key: str, value: str) -> None:
        """Add an audit annotation; the first value of a key stays."""
        self.audit_annotations.setdefault(key, value)


class AdmissionPlugin:
    """One admission plugin. It overrides the phases that it takes part in; both raise an API error to reject."""

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Return whether this plugin handles such writes. Called once; the result is cached."""
        del operation, group, plural, subresource
        return True

    async def admit(self, operation: Operation) -> None:
        """Change ``operation.obj`` in place, or raise an API error."""

    async def validate(self, operation: Operation) -> None:
        """Validate the final object: raise an API error or return."""
