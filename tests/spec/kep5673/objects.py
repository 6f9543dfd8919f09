"""Custom resources to delete, and looking at what came of it."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from kube_fairlead.api.time import parse_time
from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi

__all__ = ["CRDS", "FINALIZER", "Deadline", "Json", "Kind", "define", "near", "serve"]

Json = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FINALIZER = "example.com/cleanup"


@dataclasses.dataclass(frozen=True)
class Deadline:
    """What an object says about its deletion."""

    stamp: dt.datetime
    seconds: int | None

    @classmethod
    def of(cls, obj: Json) -> Deadline:
        metadata = obj["metadata"]
        return cls(parse_time(metadata["deletionTimestamp"]), metadata.get("deletionGracePeriodSeconds"))


@dataclasses.dataclass(frozen=True)
class Kind:
    """A custom resource definition that is served, and what a user does with its objects."""

    api: RawApi
    group: str
    plural: str
    kind: str
    namespace: str

    def path(self, name: str = "") -> str:
        collection = f"/apis/{self.group}/v1/namespaces/{self.namespace}/{self.plural}"
        return f"{collection}/{name}" if name else collection

    async def create(self, name: str, *finalizers: str, spec: Json | None = None, **metadata: Any) -> Json:
        made = {
            "apiVersion": f"{self.group}/v1",
            "kind": self.kind,
            "metadata": {"name": name, "finalizers": list(finalizers), **metadata},
            "spec": {"size": 1} if spec is None else spec,
        }
        return (await self.api.post(self.path(), made)).expect(201)

    async def delete(self, name: str, grace: object = None, /, **options: Any) -> Answer:
        """Delete with DeleteOptions in the body, as every client of Kubernetes does."""
        asked = {"gracePeriodSeconds": grace, **options} if grace is not None else options
        return await self.api.delete(self.path(name), asked or None)

    async def get(self, name: str) -> Json:
        return (await self.api.get(self.path(name))).expect(200)

    async def deadline(self, name: str) -> Deadline:
        return Deadline.of(await self.get(name))

    async def is_gone(self, name: str) -> bool:
        return (await self.api.get(self.path(name))).code == 404

    async def set_finalizers(self, name: str, *finalizers: str) -> None:
        (await self.api.patch(self.path(name), {"metadata": {"finalizers": list(finalizers)}})).expect(200)


def near(seconds: float = 0, *, tolerance: float = 5) -> Any:
    """Equals the moment that many seconds from now, give or take how long a request may take."""
    return _Near(RealClock().now() + dt.timedelta(seconds=seconds), tolerance)


@dataclasses.dataclass(frozen=True, eq=False)
class _Near:
    moment: dt.datetime
    tolerance: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dt.datetime) and abs((other - self.moment).total_seconds()) <= self.tolerance

    __hash__ = None  # type: ignore[assignment] # whatever equals several moments has no hash


async def define(api: RawApi, group: str, namespace: str, **options: Any) -> Kind:
    """Have a kind served; returns when it is."""
    return await serve(api, custom_resource_definition("machines", group, kind="Machine", **options), namespace)


async def serve(api: RawApi, manifest: Json, namespace: str) -> Kind:
    """Have a definition served; returns when it is."""
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    kind = Kind(api, spec["group"], spec["names"]["plural"], spec["names"]["kind"], namespace)
    version = (await api.post(CRDS, manifest)).expect(201)["metadata"]["resourceVersion"]
    async with api.watch(CRDS, fieldSelector=f"metadata.name={name}", resourceVersion=version) as watch:
        await watch.until(lambda event: _is_established(event["object"]))
    # kube-apiserver serves a new definition a moment after it says so; nothing announces that moment.
    await api.poll(f"/apis/{kind.group}/v1/{kind.plural}", lambda answer: answer.code != 404)
    return kind


def _is_established(definition: Json) -> bool:
    conditions = definition.get("status", {}).get("conditions", [])
    return any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)
