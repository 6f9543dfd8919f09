"""What becomes of the LifecycleTransitions that agents publish for drivers. Pure.

Many agents publish the same transition for the same driver, so no agent owns the object, and none may remove it because
its own driver left. Each agent whose driver offers it sees to it that the annotation `offered-at` stays young; with a
thousand agents that is still one write per period. The collector of the controller manager removes what has not been
offered for a while. A transition without our annotations is a user's: it is never changed and never removed.
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
    "Fits",
    "Publication",
    "Refuse",
    "Renew",
    "Replace",
    "collectable_at",
    "differences",
    "marks",
    "publish",
    "renewal_due",
]

RENEWAL: Final = dt.timedelta(minutes=20)
"""How old `offered-at` may be before an agent writes it anew."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """There is none: create it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fits:
    """It says what the driver offers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Renew:
    """It says what the driver offers; say anew that it does."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replace:
    """An agent published it for an earlier version of the same driver, and no event uses it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refuse:
    """It says something else and stays as it is."""

    why: str


Publication = Create | Fits | Renew | Replace | Refuse


def publish(
    existing: LifecycleTransition | None,
    spec: LifecycleTransitionSpec,
    driver: str,
    users: Sequence[str],
    now: dt.datetime,
    renewal: dt.timedelta = RENEWAL,
) -> Publication:
    """What to do when a driver registers with an offer. `users` are the unfinished events that name the transition."""
    if existing is None:
        return Create()
    differing = differences(existing.spec, spec)
    if not differing:
        due = renewal_due(existing, driver, renewal)
        return Renew() if due is not None and now >= due else Fits()
    said = f"LifecycleTransition {existing.name} exists and says something else: {'; '.join(differing)}"
    if _publisher(existing) != driver or existing.spec.driver != driver:
        return Refuse(f"{said}; it was not published for this driver and is never overwritten")
    if users:
        return Refuse(f"{said}; it is replaced when no event uses it any more: {', '.join(users[:5])}")
    return Replace()


def renewal_due(existing: LifecycleTransition, driver: str, renewal: dt.timedelta = RENEWAL) -> dt.datetime | None:
    """When an agent whose driver offers it should say so anew; None for one that was not published for this driver."""
    if _publisher(existing) != driver:
        return None
    offered = _offered_at(existing)
    return dt.datetime.min.replace(tzinfo=dt.UTC) if offered is None else offered + renewal


def collectable_at(transition: LifecycleTransition, ttl: dt.timedelta) -> dt.datetime | None:
    """When a transition may be removed because no driver offers it; None: a user made it, and it stays.

    One whose annotation cannot be read was changed by a user, and stays as well.
    """
    offered = _offered_at(transition)
    return offered + ttl if offered is not None and _publisher(transition) else None


def marks(driver: str, now: dt.datetime) -> dict[str, str]:
    """The marks of a transition that an agent publishes."""
    return {ANNOTATION_PUBLISHED_BY: driver, ANNOTATION_OFFERED_AT: api_time.format_time(now)}


def differences(theirs: LifecycleTransitionSpec, offered: LifecycleTransitionSpec) -> list[str]:
    """Which fields differ, each in words that a driver's author can act on."""
    before, after = wire.to_dict(theirs), wire.to_dict(offered)
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
