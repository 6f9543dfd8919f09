"""The coordinates of kinds and resources: group, version, and kind or plural resource name.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/runtime/schema/group_version.go
"""

from __future__ import annotations

import msgspec

__all__ = ["GroupKind", "GroupResource", "GroupVersion", "GroupVersionKind", "GroupVersionResource"]


class GroupVersion(msgspec.Struct, frozen=True, order=True):
    """An API group in one version; the core group's name is empty."""

    group: str
    version: str

    @classmethod
    def parse(cls, api_version: str) -> GroupVersion:
        """Read an `apiVersion`; a ValueError says what is wrong with one that has too many parts."""
        if api_version in {"", "/"}:
            return cls("", "")
        group, slash, version = api_version.partition("/")
        if not slash:
            return cls("", api_version)
        if "/" in version:
            raise ValueError(f"unexpected GroupVersion string: {api_version}")
        return cls(group, version)

    @property
    def api_version(self) -> str:
        """The wire form: `v1` for the core group, else `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def kind(self, kind: str) -> GroupVersionKind:
        """A kind in this group and version."""
        return GroupVersionKind(self.group, self.version, kind)

    def resource(self, resource: str) -> GroupVersionResource:
        """A resource in this group and version."""
        return GroupVersionResource(self.group, self.version, resource)

    def __str__(self) -> str:
        return self.api_version


class GroupKind(msgspec.Struct, frozen=True, order=True):
    """A kind whatever its version; prints as `Deployment.apps`."""

    group: str
    kind: str

    @property
    def empty(self) -> bool:
        """Whether nothing is named."""
        return not self.group and not self.kind

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GroupResource(msgspec.Struct, frozen=True, order=True):
    """A resource whatever its version; prints as `deployments.apps`."""

    group: str
    resource: str

    @property
    def empty(self) -> bool:
        """Whether nothing is named."""
        return not self.group and not self.resource

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupVersionKind(msgspec.Struct, frozen=True, order=True):
    """What `apiVersion` and `kind` of an object say."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, api_version: str, kind: str) -> GroupVersionKind:
        """From an object's two fields. An `apiVersion` with too many parts counts as none at all, as in Kubernetes."""
        try:
            return GroupVersion.parse(api_version).kind(kind)
        except ValueError:
            return cls("", "", kind)

    @property
    def group_kind(self) -> GroupKind:
        """Without the version."""
        return GroupKind(self.group, self.kind)

    @property
    def group_version(self) -> GroupVersion:
        """Without the kind."""
        return GroupVersion(self.group, self.version)

    @property
    def api_version(self) -> str:
        """The wire form: `v1` for the core group, else `group/version`."""
        return self.group_version.api_version

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


class GroupVersionResource(msgspec.Struct, frozen=True, order=True):
    """What a URL names: group, version and plural resource."""

    group: str
    version: str
    resource: str

    @property
    def group_resource(self) -> GroupResource:
        """Without the version."""
        return GroupResource(self.group, self.resource)

    @property
    def group_version(self) -> GroupVersion:
        """Without the resource."""
        return GroupVersion(self.group, self.version)

    @property
    def api_version(self) -> str:
        """The wire form: `v1` for the core group, else `group/version`."""
        return self.group_version.api_version

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Resource={self.resource}"
