"""What several topics of the shared suite need."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import RawApi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Defined:
    """A CustomResourceDefinition that is served."""

    name: str
    group: str
    plural: str
    kind: str
    namespace: str

    @property
    def definition(self) -> str:
        return f"{CRDS}/{self.name}"

    def path(self, version: str = "v1") -> str:
        return f"/apis/{self.group}/{version}/namespaces/{self.namespace}/{self.plural}"

    def cluster_path(self, version: str = "v1") -> str:
        return f"/apis/{self.group}/{version}/{self.plural}"

    def make(self, name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
        """A custom resource of the first version."""
        made = {"apiVersion": f"{self.group}/v1", "kind": self.kind, "metadata": {"name": name, **metadata}}
        return made if spec is None else {**made, "spec": spec}


Define = Callable[..., Awaitable[Defined]]


@pytest.fixture(scope="session")
def shared_definitions() -> dict[tuple[str, str], Defined]:
    """By server and content."""
    return {}


@pytest.fixture
async def define(
    api: RawApi,
    namespace: str,
    unique_name: Callable[[str], str],
    shared_definitions: dict[tuple[str, str], Defined],
) -> AsyncIterator[Define]:
    """Make definitions, each in a group of its own, wait until they are served, and remove them afterwards.

    kube-apiserver holds the first write to a new definition back for two seconds, so tests that only use a definition
    (`shared=True`) get the one that another test of the same content made.
    """
    made: list[Defined] = []

    async def define(*, kind: str = "Widget", shared: bool = False, **options: Any) -> Defined:
        key = api.access.url, json.dumps([kind, options], sort_keys=True)
        if shared and key in shared_definitions:
            return replace(shared_definitions[key], namespace=namespace)
        group = f"{unique_name('g')}.example.com"
        manifest = custom_resource_definition(f"{kind.lower()}s", group, kind=kind, **options)
        defined = Defined(manifest["metadata"]["name"], group, f"{kind.lower()}s", kind, namespace)
        await _make(api, manifest, defined)
        if shared:
            shared_definitions[key] = defined
        else:
            made.append(defined)
        return defined

    yield define
    for defined in made:
        (await api.delete(defined.definition)).expect(200, 404)


async def _make(api: RawApi, manifest: dict[str, Any], defined: Defined) -> None:
    version = (await api.post(CRDS, manifest)).expect(201)["metadata"]["resourceVersion"]
    here = {"fieldSelector": f"metadata.name={defined.name}", "resourceVersion": version}
    async with api.watch(CRDS, **here) as watch:
        await watch.until(lambda event: _established(event["object"]))
    # kube-apiserver serves a new definition a moment after it says so (404), and fills its cache a moment later (429).
    await api.poll(defined.cluster_path(), lambda answer: answer.code == 200)


def _established(definition: dict[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions", [])
    return any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)


Refused = Callable[..., Awaitable[list[str]]]


@pytest.fixture
def refused(api: RawApi, namespace: str) -> Refused:
    """What a server says of a body that it must refuse: every cause, as one line.

    Paths are relative to the test's namespace unless they begin with a slash. Values that are whole structures are
    printed as `{}`: kube-apiserver prints how Go keeps them. What it appends on further lines is left out.
    """

    async def refused(path: str, body: dict[str, Any], *, patch: str = "") -> list[str]:
        path = inside(namespace, path)
        if patch:
            answer = await api.patch(f"{path}/{patch}", body)
        else:
            answer = await api.post(path, {"metadata": {"name": "x"}, **body}, dryRun="All")
        causes = answer.expect(422)["details"]["causes"]
        return sorted({f"{cause['field']}: {_words(cause['message'])}" for cause in causes})

    return refused


_STRUCTURE = re.compile(r"(?<=value: )(\{.+\}|\[.+\])(?=:|$)")


def _words(message: str) -> str:
    return _STRUCTURE.sub(r"{}", message.partition("\n")[0])


def inside(namespace: str, path: str) -> str:
    """The path of a resource inside a namespace: `jobs.batch/v1` or `pods.v1`."""
    if path.startswith("/"):
        return path
    plural, _, version = path.partition(".")
    return f"{'/apis' if '/' in version else '/api'}/{version}/namespaces/{namespace}/{plural}"
