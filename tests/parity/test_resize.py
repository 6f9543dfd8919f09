"""pods/resize: generated changes of containers and resources, on pods of every class of service."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead.base.randomness import Randomness, SeededRandomness
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.parity.conftest import Planes

pytestmark = pytest.mark.kube

Json = dict[str, Any]
PATH = "/api/v1/namespaces/default/pods"
GENERATED = 200
CPU, MEMORY = {"cpu": "1"}, {"memory": "1Gi"}
BOTH = {**CPU, **MEMORY}
RESOURCES: list[Json] = [
    {},
    {"requests": CPU},
    {"requests": BOTH},
    {"limits": BOTH},
    {"requests": BOTH, "limits": BOTH},
    {"requests": CPU, "limits": {"cpu": "2", "memory": "1Gi"}},
    {"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}},
]
NEW: list[Json] = [
    *RESOURCES,
    {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
    {"requests": {"cpu": "1000m", "memory": "1Gi"}},
    {"requests": {"cpu": "2"}},
    {"requests": {"cpu": "1", "ephemeral-storage": "2Gi"}},
    {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}},
    {"requests": {"cpu": "-1"}},
    {"limits": {"cpu": "4", "memory": "2Gi"}},
]
POLICY = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]


def container(name: str, resources: Json, **more: Any) -> Json:
    return {"name": name, "image": "a:1", "resources": resources, **more}


def pods(draw: Randomness) -> Json:
    spec: Json = {"containers": [container("a", draw.choice(RESOURCES))], "automountServiceAccountToken": False}
    if draw.uniform(0, 1) < 0.5:
        spec["containers"].append(container("b", draw.choice(RESOURCES)))
    if draw.uniform(0, 1) < 0.4:
        always = {"restartPolicy": "Always"} if draw.uniform(0, 1) < 0.5 else {}
        spec["initContainers"] = [container("i", draw.choice(RESOURCES), **always)]
    if draw.uniform(0, 1) < 0.2:
        spec["containers"][0]["resizePolicy"] = POLICY
    return spec


CHANGES: dict[str, Callable[[Json, Json], Any]] = {
    "resources": lambda spec, new: spec["containers"][0].update(resources=new),
    "resources of the last": lambda spec, new: spec["containers"][-1].update(resources=new),
    "resources of init": lambda spec, new: spec.get("initContainers", [{}])[0].update(resources=new),
    "another image": lambda spec, new: spec["containers"][0].update(image="b:1", resources=new),
    "another name": lambda spec, _new: spec["containers"][0].update(name="z"),
    "the other way round": lambda spec, _new: spec["containers"].reverse(),
    "one more": lambda spec, new: spec["containers"].append(container("c", new)),
    "one less": lambda spec, _new: spec["containers"].pop(),
    "init gone": lambda spec, _new: spec.pop("initContainers", None),
    "one more init": lambda spec, new: spec.setdefault("initContainers", []).append(container("j", new)),
    "policy": lambda spec, _new: spec["containers"][0].update(resizePolicy=POLICY),
    "policy gone": lambda spec, _new: spec["containers"][0].pop("resizePolicy", None),
    "another node": lambda spec, new: (spec.update(nodeName="n9"), spec["containers"][0].update(resources=new)),
    "nothing": lambda _spec, _new: None,
}


async def answer(api: RawApi, number: int, draw: Randomness) -> Any:
    name = f"resize-{number}"
    spec = pods(draw)
    change, new = draw.choice(sorted(CHANGES)), draw.choice(NEW)
    status: Json | None = draw.choice([None, None, None, {"resources": {}}, {}])
    made = await api.post(PATH, {"metadata": {"name": name}, "spec": spec})
    if made.code != 201:
        return change, new, spec, made.code
    pod = made.json
    if status is not None:
        running = {"name": "a", "image": "a:1", "imageID": "", "ready": True, "restartCount": 0, **status}
        body = {"status": {"containerStatuses": [{**running, "state": {"running": {}}}]}}
        pod = (await api.patch(f"{PATH}/{name}/status", body)).expect(200)
    asked = copy.deepcopy(pod)
    CHANGES[change](asked["spec"], copy.deepcopy(new))
    got = await api.put(f"{PATH}/{name}/resize", asked)
    await api.delete(f"{PATH}/{name}", gracePeriodSeconds=0)
    if got.code != 200:
        causes = got.json.get("details", {}).get("causes", ())
        return change, new, spec, got.code, sorted({(one["field"], one["reason"]) for one in causes})
    kinds = ("containers", "initContainers")
    kept = [
        (one["name"], one["image"], one.get("resources")) for kind in kinds for one in got.json["spec"].get(kind, ())
    ]
    return change, new, spec, got.code, kept


async def answers(plane: ControlPlane) -> list[Any]:
    draw = SeededRandomness(12)
    async with RawApi(plane.access()) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
        return [await answer(api, number, draw) for number in range(GENERATED)]


def test_what_is_refused_and_what_is_stored(planes: Planes) -> None:
    kube, embedded = (asyncio.run(answers(plane)) for plane in planes)
    different = [
        f"{one[:3]}: kube {one[3:]}, embedded {other[3:]}"
        for one, other in zip(kube, embedded, strict=True)
        if one != other
    ]
    assert not different, f"{len(different)} of {len(kube)}:\n" + "\n".join(different[:10])
    assert {one[3] for one in kube} >= {200, 422}
