"""The checks: pure functions from facts to findings, and the list of them.

Here belongs what is wrong and how to fix it, a file per subject. A check yields findings, reads nothing but the facts,
and need not care for facts that could not be read: `examine` turns those into a finding. Reading never belongs here.
Before: `collector`, which reads the facts. After: the command line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from kube_fairlead.doctor.checks import nodes, objects, server, webhooks
from kube_fairlead.doctor.facts import Facts, Finding, NotRead, not_checked

__all__ = ["CHECKS", "Check", "examine"]

Check = Callable[[Facts], Iterator[Finding]]

CHECKS: Sequence[tuple[str, Check]] = (
    ("api-server", server.api_server),
    ("lifecycle-kinds", server.lifecycle_kinds),
    ("deletion-webhook", webhooks.deletion_webhook),
    ("eviction-webhook", webhooks.eviction_webhook),
    ("lease-namespace", nodes.lease_namespace),
    ("agents", nodes.agents),
    ("transitions", objects.transitions),
    ("finalizers", objects.finalizers),
)
"""Every check by its name, in the order of the report."""


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Make every check. Without an API server that answers only that is found."""
    found: list[Finding] = []
    for name, check in CHECKS:
        found += [dataclasses.replace(finding, check=name) for finding in _made(check, facts)]
        if not facts.version.found:
            break
    return tuple(found)


def _made(check: Check, facts: Facts) -> Iterator[Finding]:
    try:
        yield from check(facts)
    except NotRead as missing:
        yield not_checked(missing)
