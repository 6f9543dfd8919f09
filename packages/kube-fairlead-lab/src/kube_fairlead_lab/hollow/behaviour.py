"""How a hollow pod behaves: when it is ready, and how it terminates. Pure; annotations decide."""

from __future__ import annotations

import dataclasses

from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.api.time import parse_duration

__all__ = ["ANNOTATION_ENDS", "ANNOTATION_READY", "Behaviour", "behaviour"]

ANNOTATION_ENDS = "hollow.fairlead.dev/ends"
"""Termination: `at-once` (the default), a duration such as `5s`, `killed` (only at the end of the grace period), or
`never` (not even then, as a process that hangs in the kernel)."""

ANNOTATION_READY = "hollow.fairlead.dev/ready"
"""Result of the readiness probe: `true` (the default), `false`, or a duration after which it is true. Can be changed
while the pod runs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The behaviour of one pod. A time of None means never."""

    ends_after_seconds: float | None = 0.0
    dies_when_killed: bool = True
    ready_after_seconds: float | None = 0.0


def behaviour(pod: Pod) -> Behaviour:
    """Return the behaviour by a pod's annotations and hooks. An invalid annotation is ignored."""
    delay = max(
        (
            container.readiness_probe.initial_delay_seconds
            for container in pod.spec.containers
            if container.readiness_probe
        ),
        default=0,
    )
    ready = _seconds(pod.metadata.annotations.get(ANNOTATION_READY, ""), {"true": 0.0, "false": None}, 0.0)
    ends_word = pod.metadata.annotations.get(ANNOTATION_ENDS, "")
    ends = _seconds(ends_word, {"at-once": 0.0, "killed": None, "never": None}, 0.0)
    return Behaviour(
        ends_after_seconds=None if ends is None else ends + _pre_stop_seconds(pod),
        dies_when_killed=ends_word != "never",
        ready_after_seconds=None if ready is None else max(ready, float(delay)),
    )


def _pre_stop_seconds(pod: Pod) -> float:
    """Duration of the longest preStop sleep."""
    hooks = (container.lifecycle.pre_stop for container in pod.spec.containers if container.lifecycle is not None)
    return float(max((hook.sleep.seconds for hook in hooks if hook is not None and hook.sleep is not None), default=0))


def _seconds(text: str, words: dict[str, float | None], default: float) -> float | None:
    if text in words:
        return words[text]
    try:
        return max(0.0, parse_duration(text).total_seconds())
    except ValueError:
        return default
