"""The server's own kinds cannot be taken over by a definition of the same name."""

from __future__ import annotations

from pathlib import Path

import yaml

from kube_fairlead_lab.testing import EmbeddedControlPlane, EmbeddedOptions
from kube_fairlead_lab.testing.rawhttp import RawApi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TRANSITIONS = "/apis/lifecycle.k8s.io/v1alpha1/lifecycletransitions"
MANIFEST = Path(__file__).parents[2] / "deploy/crds/lifecycle.k8s.io/lifecycletransitions.yaml"


async def test_a_definition_of_a_builtin_kind_waits_in_vain(fairlead_apiserver: EmbeddedControlPlane) -> None:
    """Somebody applies the CRDs for stock Kubernetes to a server that has these kinds built in: nothing is lost."""
    definition = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    name = definition["metadata"]["name"]
    transition = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleTransition",
        "metadata": {"name": "t"},
        "spec": {"start": "A", "end": "B", "driver": "example.com/d", "allNodes": True},
    }
    async with RawApi(fairlead_apiserver.access()) as api:
        made = (await api.post(TRANSITIONS, transition)).expect(201)
        (await api.post(CRDS, definition)).expect(201)
        answer = await api.poll(f"{CRDS}/{name}", lambda answer: bool(answer.json.get("status", {}).get("conditions")))
        conditions = {entry["type"]: entry for entry in answer.json["status"]["conditions"]}
        assert conditions["NamesAccepted"]["status"] == "False"
        assert "is already in use" in conditions["NamesAccepted"]["message"]
        assert conditions["Established"]["status"] == "False"
        assert (await api.get(f"{TRANSITIONS}/t")).expect(200) == made
        (await api.delete(f"{CRDS}/{name}")).expect(200)
        await api.poll(f"{CRDS}/{name}", lambda answer: answer.code == 404)
        assert (await api.get(f"{TRANSITIONS}/t")).expect(200) == made


async def test_a_definition_from_before_the_kind_was_built_in(tmp_path: Path) -> None:
    """The gate is off, the definition is used; with the gate on again its objects are the built-in kind's."""
    definition = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    off = EmbeddedControlPlane(
        tmp_path, EmbeddedOptions(flags=["--feature-gates=SpecializedLifecycleManagement=false"])
    )
    transition = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleTransition",
        "metadata": {"name": "t"},
        "spec": {"start": "A", "end": "B", "driver": "example.com/d", "allNodes": True},
    }
    try:
        await off.start()
        async with RawApi(off.access()) as api:
            (await api.get(TRANSITIONS)).expect(404)
            (await api.post(CRDS, definition)).expect(201)
            await api.poll(TRANSITIONS, lambda answer: answer.code == 200)
            made = (await api.post(TRANSITIONS, transition)).expect(201)
    finally:
        await off.stop()
    on = EmbeddedControlPlane(tmp_path)
    try:
        await on.start()
        async with RawApi(on.access()) as api:
            found = (await api.get(f"{TRANSITIONS}/t")).expect(200)
            assert found["metadata"]["uid"] == made["metadata"]["uid"]
            assert found["spec"] == made["spec"]
    finally:
        await on.stop()
