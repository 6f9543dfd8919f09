"""What is known about a cluster, as plain data: the only thing that checks look at."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Mapping
from typing import Generic, TypeVar

from kube_fairlead.api.apps_v1 import DaemonSet
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition
from kube_fairlead.base.certificates import Validity

__all__ = ["Broken", "Facts", "Finding", "Hook", "NotRead", "Read", "Severity", "not_checked"]

_T = TypeVar("_T")


class Severity(enum.StrEnum):
    """How bad it is."""

    ERROR = "error"  # something does not work
    WARNING = "warning"  # something will not work, or not always
    UNKNOWN = "unknown"  # a check could not be made
    INFO = "info"  # worth knowing; nothing is wrong


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found."""

    check: str = ""  # filled in by `checks.examine`
    object: str
    severity: Severity
    problem: str
    fix: str


class NotRead(Exception):
    """Raised when a check looks at a fact that could not be read."""


class Broken(NotRead):
    """Raised when a check looks at a fact that was read and makes no sense."""


def not_checked(missing: NotRead, named: str = "") -> Finding:
    """Says that a check, or a part of it, could not be made."""
    return Finding(
        object=named,
        severity=Severity.UNKNOWN,
        problem=f"not checked: {missing}",
        fix="run fairlead doctor as a user with that right, such as one with the ClusterRole cluster-admin",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Read(Generic[_T]):
    """A fact, or why it could not be read."""

    found: _T | None = None
    problem: str = ""
    is_broken: bool = False  # it was read, and makes no sense

    @property
    def value(self) -> _T:
        """The fact.

        Raises:
            Broken: it was read, and makes no sense.
            NotRead: it could not be read.
        """
        if self.found is None:
            raise (Broken if self.is_broken else NotRead)(self.problem)
        return self.found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One webhook of a ValidatingWebhookConfiguration, and its Service and certificates."""

    registration: str
    failure_policy: str
    service: str = ""  # namespace/name; empty: it is called by its URL
    has_bundle: bool = False
    authorities: Read[tuple[Validity, ...]] = dataclasses.field(default_factory=Read)
    ready_endpoints: Read[int] = dataclasses.field(default_factory=Read)
    service_exists: Read[bool] = dataclasses.field(default_factory=Read)
    secret: str = ""  # namespace/name of the Secret with its serving certificate; empty: none was found
    serving: Read[tuple[Validity, ...]] = dataclasses.field(default_factory=Read)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One cluster at one moment."""

    now: dt.datetime
    url: str
    version: Read[str] = dataclasses.field(default_factory=Read)
    is_native: bool = False  # the API server honours the grace period of custom resources by itself
    wanted_group: str = ""  # the only group of the lifecycle kinds to look at; empty: all that are served
    kinds: Read[Mapping[str, frozenset[str]]] = dataclasses.field(default_factory=Read)  # plurals by group
    hooks: Read[tuple[Hook, ...]] = dataclasses.field(default_factory=Read)
    lease_namespace: Read[bool] = dataclasses.field(default_factory=Read)
    leases: Read[Mapping[str, Lease]] = dataclasses.field(default_factory=Read)  # by node
    nodes: Read[Mapping[str, Node]] = dataclasses.field(default_factory=Read)
    agents: Read[tuple[DaemonSet, ...]] = dataclasses.field(default_factory=Read)
    events: Read[tuple[LifecycleEvent, ...]] = dataclasses.field(default_factory=Read)
    transitions: Read[tuple[LifecycleTransition, ...]] = dataclasses.field(default_factory=Read)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that serve LifecycleEvents, of those to look at.

        Raises:
            NotRead: the server did not say.
        """
        return tuple(group for group in self.served_groups if self.wanted_group in {"", group})

    @property
    def served_groups(self) -> tuple[str, ...]:
        """All groups that serve LifecycleEvents.

        Raises:
            NotRead: the server did not say.
        """
        return tuple(group for group, plurals in self.kinds.value.items() if "lifecycleevents" in plurals)
