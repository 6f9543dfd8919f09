"""The API group is discovered: with either one served, commands work without a flag."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kube_fairlead.api import crds, reserved
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main
from kube_fairlead.client import errors, lifecyclegroup
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.embedded import EmbeddedOptions
from kube_fairlead_lab.testing.manifests import node as node_manifest
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi

DEFAULT, ALTERNATIVE = reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODES = "/api/v1/nodes"


@pytest.fixture(params=[DEFAULT, ALTERNATIVE])
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedControlPlane]:
    """A server of one group, with a node."""
    options = EmbeddedOptions(flags=[f"--lifecycle-api-group={request.param}"])
    for made in watch_over(request.config, EmbeddedControlPlane(tmp_path_factory.mktemp("group"), options)):
        asyncio.run(add_node(made))
        yield made


async def add_node(plane: EmbeddedControlPlane) -> None:
    async with RawApi(plane.access()) as api:
        (await api.post(NODES, node_manifest("node-1"))).expect(201)


def say(plane: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    command, *rest = words
    got = main([command, f"--kubeconfig={plane.kubeconfig}", *rest], environment=Environment({}))
    captured = capsys.readouterr()
    assert got == code, captured
    return captured.out, captured.err


async def group_of(plane: EmbeddedControlPlane) -> str:
    async with plane.client() as client:
        found = await lifecyclegroup.discovered(client)
        return found.of(LifecycleEvent).resource.gvr.group


async def install(plane: EmbeddedControlPlane, group: str) -> None:
    async with RawApi(plane.access()) as api:
        for manifest in crds.crds(group):
            (await api.apply(f"{CRDS}/{manifest['metadata']['name']}", manifest, "tests")).expect(201)
        await api.poll(f"/apis/{group}/v1alpha1/lifecycleevents", lambda answer: answer.code == 200)


def test_commands_use_the_group_that_is_served(
    plane: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    served = request.node.callspec.params["plane"]
    other = ALTERNATIVE if served == DEFAULT else DEFAULT
    assert asyncio.run(group_of(plane)) == served
    out, notes = say(plane, capsys, "status")
    assert "node-1" in out
    assert notes == ""
    _, said = say(plane, capsys, "drain", "node-1", code=1)
    assert "there is no LifecycleTransition node-drain" in said
    assert say(plane, capsys, "history") == ("No finished events are recorded.\n", "")
    # The error for the wrong group names the right one, and does not ask for a second set.
    _, said = say(plane, capsys, "drain", "node-1", f"--lifecycle-api-group={other}", code=1)
    assert f"serves LifecycleEvents in {served}, not in {other}" in said
    assert "install" not in said


def test_two_sets_are_not_chosen_between(
    fairlead_apiserver: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(install(fairlead_apiserver, ALTERNATIVE))
    asyncio.run(add_node(fairlead_apiserver))
    _, said = say(fairlead_apiserver, capsys, "drain", "node-1", code=1)
    assert f"serves LifecycleEvents in {DEFAULT} and {ALTERNATIVE}; say which by --lifecycle-api-group" in said
    _, said = say(fairlead_apiserver, capsys, "install", "--uninstall", code=1)
    assert f"serves LifecycleEvents in {DEFAULT} and {ALTERNATIVE}; say which by --lifecycle-api-group" in said
    out, notes = say(fairlead_apiserver, capsys, "status", f"--lifecycle-api-group={ALTERNATIVE}")
    assert "node-1" in out
    assert notes == ""


def test_a_cluster_without_the_kinds(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    options = EmbeddedOptions(flags=["--feature-gates=SpecializedLifecycleManagement=false"])
    for plane in watch_over(request.config, EmbeddedControlPlane(tmp_path_factory.mktemp("none"), options)):
        asyncio.run(add_node(plane))
        out, notes = say(plane, capsys, "status")
        assert "node-1" in out
        assert notes.count("serves no LifecycleEvents, neither in lifecycle.k8s.io nor in lifecycle.fairlead.dev") == 1
        _, said = say(plane, capsys, "drain", "node-1", code=1)
        assert "fairlead install prints what it needs" in said


async def test_a_group_that_is_discovered_later(fairlead_apiserver: EmbeddedControlPlane) -> None:
    async with fairlead_apiserver.client() as plain:
        scheme = lifecyclegroup.LateScheme()
        client = plain.with_scheme(scheme)
        events = client.of(LifecycleEvent)
        with pytest.raises(errors.NotDiscovered, match="API group of LifecycleEvent is not known yet"):
            await events.list()
        assert (await client.of(Node).list()).items == []
        await lifecyclegroup.wait_settled(client, scheme, pytest.fail)
        assert (await events.list()).items == []
        assert events.resource.gvr.group == scheme.group == DEFAULT


async def test_an_object_is_looked_for_in_every_group_that_is_served(fairlead_apiserver: EmbeddedControlPlane) -> None:
    await install(fairlead_apiserver, ALTERNATIVE)
    async with fairlead_apiserver.client() as plain:
        known = await lifecyclegroup.candidates(plain)
        assert known == (plain,)
        late = await lifecyclegroup.candidates(plain.with_scheme(lifecyclegroup.LateScheme()))
        assert [one.of(LifecycleEvent).resource.gvr.group for one in late] == [DEFAULT, ALTERNATIVE]
