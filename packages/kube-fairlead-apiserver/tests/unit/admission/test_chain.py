from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead_apiserver.admission.chain import Chain
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation, Reinvocation
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.registry.resource import Resource
from tests.unit.admission.plane import Plane

Json = dict[str, Any]


class Note(AdmissionPlugin):
    """Writes down that it was asked."""

    def __init__(self, name: str, notes: list[str], *, only: str = "") -> None:
        self._name = name
        self._notes = notes
        self._only = only
        self.questions = 0

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        self.questions += 1
        return not self._only or plural == self._only

    async def admit(self, operation: Operation) -> None:
        self._notes.append(f"{self._name} admits")

    async def validate(self, operation: Operation) -> None:
        self._notes.append(f"{self._name} validates")


class OnlyValidates(AdmissionPlugin):
    async def validate(self, operation: Operation) -> None:
        raise operation.forbidden("never")


def operation(plane: Plane, kind: str = "ConfigMap") -> Operation:
    obj = {"metadata": {"name": "a", "namespace": "work"}}
    return Operation("CREATE", plane.resource(kind), UserInfo("jane"), "work", "a", obj, None)


async def test_all_admit_then_all_validate_in_order(plane: Plane) -> None:
    notes: list[str] = []
    chain = Chain([Note("one", notes), Note("two", notes, only="pods"), Note("three", notes)])
    await chain.admit(operation(plane))
    await chain.validate(operation(plane))
    assert notes == ["one admits", "three admits", "one validates", "three validates"]


async def test_a_plugin_is_asked_once_whether_it_cares(plane: Plane) -> None:
    plugin = Note("one", [])
    chain = Chain([plugin])
    for _ in range(3):
        await chain.admit(operation(plane))
        await chain.validate(operation(plane))
    assert plugin.questions == 1
    await chain.admit(operation(plane, "Pod"))
    assert plugin.questions == 2


async def test_a_second_round_only_when_it_is_asked_for(plane: Plane) -> None:
    notes: list[str] = []
    chain = Chain([Note("one", notes)])
    asked = operation(plane)
    asked.reinvocation = Reinvocation()
    await chain.admit(asked)
    assert notes == ["one admits"]
    asked.reinvocation.wanted = True
    await chain.admit(asked)
    assert notes == ["one admits"] * 3
    assert asked.reinvocation.round == 1


async def test_a_refusal_names_what_is_refused(plane: Plane) -> None:
    chain = Chain([OnlyValidates()])
    await chain.admit(operation(plane))
    with pytest.raises(errors.Forbidden, match=r'^configmaps "a" is forbidden: never$'):
        await chain.validate(operation(plane))


async def test_an_idle_chain_reads_nothing(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing configured, admission must not be felt: what it knows of the configuration it knows already."""
    asked = operation(plane)
    await plane.chain.admit(asked)
    await plane.chain.validate(asked)
    decoded: list[str] = []
    monkeypatch.setattr(Resource, "decode", lambda resource, _entry: decoded.append(resource.kind))
    for _ in range(3):
        await plane.chain.admit(asked)
        await plane.chain.validate(asked)
    assert decoded == []
