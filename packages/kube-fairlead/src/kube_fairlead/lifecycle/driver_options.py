"""The options that an event's annotations pass to its driver.

A driver `domain/name` reads annotations `name.domain/<option>`: `drain.fairlead.dev/force` for the driver
`fairlead.dev/drain`. A driver without a domain reads `name/<option>`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kube_fairlead.api.validation.lifecycle import OPTION_MAX_LENGTH, OPTIONS_MAX

__all__ = ["annotation_prefix", "options_for", "options_problem"]


def annotation_prefix(driver: str) -> str:
    """Return the prefix of the annotations for a driver."""
    domain, separator, name = driver.rpartition("/")
    return f"{name}.{domain}/" if separator else f"{name}/"


def options_for(driver: str, annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the options for one driver, by name without prefix, sorted."""
    prefix = annotation_prefix(driver)
    return {key.removeprefix(prefix): annotations[key] for key in sorted(annotations) if key.startswith(prefix)}


def options_problem(options: Mapping[str, str]) -> str:
    """Return why these options cannot be stored in an event's status; empty when they can."""
    if len(options) > OPTIONS_MAX:
        return f"the event has {len(options)} options for its driver; at most {OPTIONS_MAX} are allowed"
    too_long = [name for name, value in options.items() if len(value) > OPTION_MAX_LENGTH]
    if too_long:
        return f"option {too_long[0]} is longer than {OPTION_MAX_LENGTH} characters"
    return ""
