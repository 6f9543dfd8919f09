from __future__ import annotations

import pytest

from kube_fairlead.api import crds, reserved
from kube_fairlead_apiserver.registry.lifecycle import lifecycle_definitions, lifecycle_resources

GROUPS = (reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE)


@pytest.mark.parametrize("group", GROUPS)
def test_the_definitions_are_those_of_the_types(group: str) -> None:
    assert [found["spec"] for found in lifecycle_definitions(group)] == [made["spec"] for made in crds.crds(group)], (
        "run: make crds"
    )


@pytest.mark.parametrize("group", GROUPS)
def test_the_kinds_are_served_in_their_group(group: str) -> None:
    served = [(found.group, found.plural, found.kind) for found in lifecycle_resources(group)]
    assert served == [
        (group, "lifecycletransitions", "LifecycleTransition"),
        (group, "lifecycleevents", "LifecycleEvent"),
        (group, "nodelifecyclerecords", "NodeLifecycleRecord"),
    ]
