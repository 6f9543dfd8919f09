"""Events that a real server accepts."""

from __future__ import annotations

from typing import Literal

import pytest

from kube_fairlead.api import core_v1
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.client.client import Client
from kube_fairlead.client.recorder import EventRecorder

EVENTS = GroupVersionResource("", "v1", "events")


@pytest.mark.parametrize("form", ["events.k8s.io/v1", "v1"])
async def test_events_are_written_and_counted(
    admin: Client, namespace: str, form: Literal["events.k8s.io/v1", "v1"]
) -> None:
    subject = await admin.of(core_v1.ConfigMap).create(
        core_v1.ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace))
    )
    recorder = EventRecorder(admin, controller="fairlead.dev/test", instance="here", api=form)
    events = admin.of(EVENTS)
    version = (await events.list(namespace=namespace)).resource_version
    async with events.watch(namespace=namespace, resource_version=version) as told:
        async with recorder.running():
            recorder.event(subject, reason="Tested", note="it works", type="Warning", action="Test")
            await anext(told)
            for _ in range(4):
                recorder.event(subject, reason="Tested", note="it works", type="Warning", action="Test")
            recorder.event(subject, reason="Other", note="that too")
        assert recorder.dropped == 0
    written = {item["reason"]: item for item in (await events.list(namespace=namespace)).items}
    assert sorted(written) == ["Other", "Tested"]
    event = written["Tested"]
    assert (event["message"], event["type"], event["involvedObject"]["uid"]) == ("it works", "Warning", subject.uid)
    assert event["reportingComponent"] == "fairlead.dev/test"
    assert (event["count"] if form == "v1" else event["series"]["count"]) == 5
