"""Is there an API server, and does it serve the lifecycle kinds?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kube_fairlead.client.lifecyclegroup import explain_absence, explain_choice
from kube_fairlead.doctor.facts import Facts, Finding, NotRead, Severity

__all__ = ["api_server", "lifecycle_kinds"]

# ValidatingAdmissionPolicies and the match conditions of webhooks are stable since then.
_OLDEST: Final = (1, 30)
_KINDS: Final = ("lifecycleevents", "lifecycletransitions", "nodelifecyclerecords")


def api_server(facts: Facts) -> Iterator[Finding]:
    """The API server answers, and is new enough."""
    try:
        version = facts.version.value
    except NotRead as problem:
        yield Finding(
            object=facts.url,
            severity=Severity.ERROR,
            problem=str(problem),
            fix="see that the API server runs, and that --kubeconfig and --context name it and a user that it knows",
        )
        return
    numbers = re.match(r"v(\d+)\.(\d+)", version)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < _OLDEST:
        yield Finding(
            object=facts.url,
            severity=Severity.WARNING,
            problem=f"Kubernetes {version} does not know the policies that fairlead install prints",
            fix=f"upgrade to Kubernetes {_OLDEST[0]}.{_OLDEST[1]} or newer",
        )


def lifecycle_kinds(facts: Facts) -> Iterator[Finding]:
    """The kinds are served, all of them, in one group."""
    groups = facts.groups
    if not groups:
        served = facts.served_groups
        problem, _, remedy = explain_absence(facts.wanted_group, served).partition("; ")
        yield Finding(
            object="CustomResourceDefinitions",
            severity=Severity.ERROR,
            problem=problem,
            fix=remedy if served else "fairlead install | kubectl apply --server-side -f -",
        )
    if len(groups) > 1:
        yield Finding(
            object=", ".join(groups),
            severity=Severity.WARNING,
            problem=f"{explain_choice(groups).partition(';')[0]}: components without --lifecycle-api-group wait",
            fix="delete the CustomResourceDefinitions of the group that is not used, or give every component and "
            "command --lifecycle-api-group",
        )
    for group in groups:
        missing = [plural for plural in _KINDS if plural not in facts.kinds.value[group]]
        if missing:
            yield Finding(
                object=group,
                severity=Severity.ERROR,
                problem=f"{', '.join(missing)} not served: an older version has been installed",
                fix=f"fairlead install --lifecycle-api-group={group} | kubectl apply --server-side -f -",
            )
