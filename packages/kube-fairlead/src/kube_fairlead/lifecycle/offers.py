"""How agents publish the LifecycleTransitions that drivers offer. Pure.

Many agents publish the same transition for the same driver, so no agent owns the object, and none may delete it when
its own driver unregisters. Each agent whose driver offers it renews the annotation `offered-at` when that is old; with
a thousand agents this is still one write per period. The controller manager's collector deletes a transition whose
annotation expired. A transition without these annotations was created by a user and is never changed or deleted.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Final

from kube_fairlead.api import time as api_time
from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleTransition, LifecycleTransitionSpec
from kube_fairlead.api.reserved import ANNOTATION_OFFERED_AT, ANNOTATION_PUBLISHED_BY

__all__ = [
    "RENEWAL",
    "Create",
    "Publication",
    "Refuse",
    "Renew",
    "Replace",
    "UpToDate",
    "collectable_at",
    "differences",
    "publish",
    "published_annotations",
    "renewal_due",
]

RENEWAL: Final = dt.timedelta(minutes=20)
"""How old `offered-at` may be before an agent renews it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """It does not exist: create it."""


@dataclasses.dataclass(frozen=True, slots=True)
class UpToDate:
    """Its spec is what the driver offers, and its annotation is recent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Renew:
    """Its spec is what the driver offers; renew its annotation."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replace:
    """An agent published it for an earlier version of the same driver, and no event uses it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refuse:
    """It has another spec and is not overwritten."""

    why: str


Publication = Create | UpToDate | Renew | Replace | Refuse


def publish(
    existing: LifecycleTransition | None,
    spec: LifecycleTransitionSpec,
    driver: str,
    users: Sequence[str],
    now: dt.datetime,
    renewal: dt.timedelta = RENEWAL,
) -> Publication:
    """Decide how to publish an offer of a driver. `users`: names of unfinished events that use the transition."""
    if existing is None:
        return Create()
    differing = differences(existing.spec, spec)
    if not differing:
        due = renewal_due(existing, driver, renewal)
        return Renew() if due is not None and now >= due else UpToDate()
    found = f"LifecycleTransition {existing.name} exists with another spec: {'; '.join(differing)}"
    if _publisher(existing) != driver or existing.spec.driver != driver:
        return Refuse(f"{found}; it was not published for this driver and is never overwritten")
    if users:
        return Refuse(f"{found}; it is replaced when no event uses it any more: {', '.join(users[:5])}")
    return Replace()


def renewal_due(existing: LifecycleTransition, driver: str, renewal: dt.timedelta = RENEWAL) -> dt.datetime | None:
    """Return when an agent renews the annotation; None when it was not published for this driver."""
    if _publisher(existing) != driver:
        return None
    offered = _offered_at(existing)
    return dt.datetime.min.replace(tzinfo=dt.UTC) if offered is None else offered + renewal


def collectable_at(transition: LifecycleTransition, ttl: dt.timedelta) -> dt.datetime | None:
    """Return when a transition that no driver offers may be deleted; None: a user created it, and it stays.

    One whose annotation cannot be parsed was changed by a user, and stays too.
    """
    offered = _offered_at(transition)
    return offered + ttl if offered is not None and _publisher(transition) else None


def published_annotations(driver: str, now: dt.datetime) -> dict[str, str]:
    """Return the annotations of a transition that an agent publishes."""
    return {ANNOTATION_PUBLISHED_BY: driver, ANNOTATION_OFFERED_AT: api_time.format_time(now)}


def differences(stored: LifecycleTransitionSpec, offered: LifecycleTransitionSpec) -> list[str]:
    """Describe each field that differs, for the author of the driver."""
    before, after = wire.to_dict(stored), wire.to_dict(offered)
    return [
        f"spec.{field} is {_shown(before.get(field))} and the driver offers {_shown(after.get(field))}"
        for field in sorted(before.keys() | after.keys())
        if before.get(field) != after.get(field)
    ]


def _shown(value: object) -> str:
    return "unset" if value is None else repr(value)[:200]


def _publisher(transition: LifecycleTransition) -> str:
    return transition.metadata.annotations.get(ANNOTATION_PUBLISHED_BY, "")


def _offered_at(transition: LifecycleTransition) -> dt.datetime | None:
    try:
        return api_time.parse_time(transition.metadata.annotations.get(ANNOTATION_OFFERED_AT, ""))
    except ValueError:
        return None
