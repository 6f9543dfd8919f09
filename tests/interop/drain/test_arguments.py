"""Which nodes are meant: the same arguments through the real kubectl drain and through `fairlead drain`.

Every case is a dry run, so that nothing is touched. What both refuse as bad usage kubectl ends with 1, and we with 2.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main
from kube_fairlead_lab.testing import EmbeddedControlPlane, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.manifests import node as node_manifest
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.interop.conftest import Kubectl, Said

pytestmark = pytest.mark.kube

NODES = ("node-a", "node-b")
KINDS = ("", "node/", "nodes/", "no/", "Node/", "nodes.v1./", "foo/", "/", "node/node/")
NAMES = (*NODES, "nowhere", "NODE-A", "")
SELECTORS = ("pool=web", "pool=none", "pool in (web,db)", "!pool", "cordoned=yes")
CASES = 40


def generated(seed: int) -> list[str]:
    """Arguments as a user may write them, right and wrong."""
    chance = random.Random(seed)
    words = ["--dry-run=client"]
    if chance.random() < 0.3:
        words += ["--selector", chance.choice(SELECTORS)]
    if len(words) == 1 or chance.random() < 0.15:
        for _ in range(chance.choice((1, 1, 2, 3))):
            kind = chance.choice(KINDS) if chance.random() < 0.7 else ""
            words.append(f"{kind}{chance.choice(NAMES)}")
    if chance.random() < 0.2:
        words.append(chance.choice(("--chunk-size=-1", "--chunk-size=1", "--timeout=5s", "--grace-period=-1")))
    return words


async def prepare(plane: EmbeddedControlPlane) -> None:
    async with RawApi(plane.access()) as api:
        for name in NODES:
            made = node_manifest(name)
            made["metadata"]["labels"] = {"pool": "web", "cordoned": "yes" if name == "node-b" else "no"}
            made["spec"] = {"unschedulable": True} if name == "node-b" else {}
            (await api.post("/api/v1/nodes", made)).expect(201)


def test_the_same_nodes_are_meant_and_the_same_is_said(
    fairlead_apiserver: EmbeddedControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binaries = KubeBinaries.find("1.36")
    require_real("kubectl", present=not binaries.missing("kubectl"), remedy="run: make kube")
    kubectl = Kubectl(binaries.component("kubectl"), fairlead_apiserver.kubeconfig, "default", tmp_path)
    asyncio.run(prepare(fairlead_apiserver))
    outcomes: set[int] = set()
    for seed in range(CASES):
        words = generated(seed)
        theirs = asyncio.run(kubectl("drain", *words, code=None))
        code = main(["drain", f"--kubeconfig={fairlead_apiserver.kubeconfig}", *words], environment=Environment({}))
        captured = capsys.readouterr()
        ours = Said(code, captured.out, captured.err)
        assert bool(ours.code) == bool(theirs.code), (words, ours, theirs)
        # Before anything is said of a node all of them are found, by both.
        assert ours.out == theirs.out, (words, ours, theirs)
        if ours.code == 1:
            assert ours.err == theirs.err, words
        if ours.code == 0:
            assert (ours.err, theirs.err) == ("", ""), words
        outcomes.add(ours.code)
    assert outcomes == {0, 1, 2}
