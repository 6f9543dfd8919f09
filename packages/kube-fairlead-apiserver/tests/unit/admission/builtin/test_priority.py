from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import errors
from tests.unit.admission.plane import Plane, pod


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


async def test_without_any_class_a_pod_has_priority_zero(plane: Plane) -> None:
    spec = (await plane.create(pod("a")))["spec"]
    assert spec["priority"] == 0
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert "priorityClassName" not in spec


@pytest.mark.parametrize(
    ("name", "value"), [("system-node-critical", 2000001000), ("system-cluster-critical", 2000000000)]
)
async def test_the_system_classes_are_always_there(plane: Plane, name: str, value: int) -> None:
    assert (await plane.create(pod("a", priorityClassName=name)))["spec"]["priority"] == value


async def test_a_class_gives_value_and_policy(plane: Plane) -> None:
    await plane.create(priority_class("batch", -10, preemptionPolicy="Never"))
    spec = (await plane.create(pod("a", priorityClassName="batch")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (-10, "Never")


async def test_the_default_class_is_for_those_that_name_none(plane: Plane) -> None:
    await plane.create(priority_class("usual", 7, globalDefault=True))
    spec = (await plane.create(pod("a")))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)
    await plane.delete("PriorityClass", "usual")
    assert (await plane.create(pod("b")))["spec"]["priority"] == 0


async def test_there_is_one_default_class(plane: Plane) -> None:
    await plane.create(priority_class("first", 7, globalDefault=True))
    with pytest.raises(errors.Forbidden) as raised:
        await plane.create(priority_class("second", 8, globalDefault=True))
    assert raised.value.message == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: '
        "PriorityClass first is already marked as default. Only one default can exist"
    )
    await plane.change("PriorityClass", "first", lambda obj: obj.update(description="still the one"))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        (
            {"priority": 5},
            (
                r"the integer value of priority \(5\) must not be provided in pod spec; "
                "priority admission controller computed 0 from the given PriorityClass name"
            ),
        ),
        (
            {"preemptionPolicy": "Never"},
            (
                r"the string value of PreemptionPolicy \(Never\) must not be provided in pod spec; "
                "priority admission controller computed PreemptLowerPriority from the given PriorityClass name"
            ),
        ),
    ],
)
async def test_what_does_not_fit_is_refused(plane: Plane, spec: dict[str, Any], why: str) -> None:
    with pytest.raises(errors.Forbidden, match=f'^pods "a" is forbidden: {why}$'):
        await plane.create(pod("a", **spec))


async def test_an_update_keeps_the_priority_it_does_not_mention(plane: Plane) -> None:
    await plane.create(pod("a", priorityClassName="system-node-critical"))

    def forget(obj: dict[str, Any]) -> None:
        del obj["spec"]["priority"], obj["spec"]["preemptionPolicy"]
        obj["metadata"]["labels"] = {"seen": "yes"}

    changed = await plane.change("Pod", "a", forget, namespace="work")
    assert changed["spec"]["priority"] == 2000001000
    assert changed["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
