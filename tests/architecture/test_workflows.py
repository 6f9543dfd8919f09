"""Workflows run what a developer runs, pin what they fetch, and hold no right that they do not use."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.source import ROOT

FOLDER = ROOT / ".github" / "workflows"
PINNED = re.compile(r"^\s*-?\s*uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)+$")
PROGRAM = re.compile(r"(?<![\w./-])((?:\.ci|hack)/[\w./-]+)")
MAKE = re.compile(r"\bmake (?:--[\w-]+ )*([a-z][a-z0-9-]*)")
PUBLISH = "pypa/gh-action-pypi-publish"

Workflow = dict[Any, Any]  # YAML reads the key `on` as a boolean


def load(name: str) -> Workflow:
    loaded: Workflow = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


def steps(workflow: Workflow) -> Iterator[Workflow]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def unpinned(text: str) -> list[str]:
    """Actions that are not pinned by commit, with the release in a comment for people."""
    return [line.strip() for line in text.splitlines() if re.match(r"\s*-?\s*uses:", line) and not PINNED.match(line)]


def moving_images(workflow: Workflow) -> list[str]:
    """Container images that are not pinned by digest."""
    images = [job["container"]["image"] for job in workflow["jobs"].values() if "container" in job]
    return [image for image in images if not re.search(r"@sha256:[0-9a-f]{64}$", image)]


def right_faults(workflow: Workflow) -> list[str]:
    """Rights beyond reading, but for the job that publishes, which has the one it needs."""
    faults = []
    if workflow.get("permissions") != {"contents": "read"}:
        faults.append("the workflow must say `permissions: contents: read`")
    if "pull_request_target" in (workflow.get(True) or {}):
        faults.append("pull_request_target gives the rights of this repository to a stranger's code")
    for name, job in workflow["jobs"].items():
        publishes = any(step.get("uses", "").startswith(PUBLISH) for step in job["steps"])
        if publishes and (job.get("permissions") != {"id-token": "write"} or "environment" not in job):
            faults.append(f"{name} publishes: it needs id-token: write, nothing else, and an environment")
        if not publishes and "permissions" in job:
            faults.append(f"{name} has rights of its own")
        if publishes and any("checkout" in step.get("uses", "") for step in job["steps"]):
            faults.append(f"{name} publishes and must run no code of the repository")
        if "timeout-minutes" not in job:
            faults.append(f"{name} has no timeout")
    if "concurrency" not in workflow:
        faults.append("no concurrency: two runs for one branch")
    return faults


def missing_programs(workflow: Workflow) -> list[str]:
    """Scripts and make targets that a step runs and that do not exist."""
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    programs = [program for command in commands for program in PROGRAM.findall(command)]
    targets = [target for command in commands for target in MAKE.findall(command)]
    return [
        *(f"no program {program}" for program in programs if not os.access(ROOT / program, os.X_OK)),
        *(f"no target {target}" for target in targets if target not in make_targets()),
    ]


def injections(workflow: Workflow) -> list[str]:
    """Expressions inside a shell command: what they hold would be run as code. They belong into `env`."""
    return [step["run"] for step in steps(workflow) if "${{" in step.get("run", "")]


def workflows() -> list[Path]:
    return sorted(FOLDER.glob("*.yml"))


@pytest.mark.parametrize("path", workflows(), ids=lambda path: path.name)
def test_a_workflow_is_sound(path: Path) -> None:
    workflow = load(path.name)
    assert unpinned(path.read_text(encoding="utf-8")) == []
    assert moving_images(workflow) == []
    assert right_faults(workflow) == []
    assert missing_programs(workflow) == []
    assert injections(workflow) == []


def test_ci_runs_what_decides() -> None:
    workflow = load("ci.yml")
    assert [step["run"] for step in steps(workflow) if ".ci" in step.get("run", "")] == [".ci/run"]
    assert set(workflow[True]) == {"push", "pull_request"}


def test_the_cache_is_renewed_when_a_build_changes() -> None:
    (cache,) = [step["with"] for step in steps(load("ci.yml")) if step.get("uses", "").startswith("actions/cache@")]
    assert cache["path"] == "~/.cache/fairlead"
    assert "hashFiles('hack/**')" in cache["key"]


def test_a_release_is_installed_before_it_is_published() -> None:
    jobs = load("release.yml")["jobs"]
    assert jobs["install"]["needs"] == "build"
    assert jobs["publish"]["needs"] == ["build", "install"]
    (wheels,) = [step for step in jobs["install"]["steps"] if "run" in step]
    assert (wheels["run"], wheels["env"]["PYTHONS"]) == ("make test-wheels", "${{ matrix.python }}")
    (publish,) = [step for step in jobs["publish"]["steps"] if step.get("uses", "").startswith(PUBLISH)]
    assert publish["with"]["attestations"] is True
    assert publish["with"]["verify-metadata"] is True
    assert "password" not in publish["with"]


def test_a_release_is_installed_on_every_python_that_is_claimed() -> None:
    matrix = load("release.yml")["jobs"]["install"]["strategy"]["matrix"]["python"]
    for project in ROOT.glob("packages/*/pyproject.toml"):
        claimed = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project.read_text(encoding="utf-8"))
        assert claimed == matrix, project


def test_a_tag_names_what_was_built(tmp_path: Path) -> None:
    script = tmp_path / "hack" / "release" / "tag.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / "hack" / "release" / "tag.sh", script)
    (tmp_path / "dist").mkdir()
    for name in ("kube_fairlead_lab-0.1.0-py3-none-any.whl", "kube_fairlead_lab-0.1.0.tar.gz"):
        (tmp_path / "dist" / name).touch()

    def run(tag: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([script, tag], capture_output=True, text=True, check=False)

    assert run("kube-fairlead-lab/v0.1.0").stdout == "distribution=kube-fairlead-lab\nversion=0.1.0\n"
    for wrong in ("kube-fairlead-lab/v0.1.1", "kube-fairlead/v0.1.0", "v0.1.0", "kube-fairlead-lab"):
        refused = run(wrong)
        assert (refused.returncode, refused.stdout) == (1, ""), wrong
        assert f"tag {wrong}: dist has no" in refused.stderr


def test_an_unpinned_action_is_found() -> None:
    commit = "3d3c42e5aac5ba805825da76410c181273ba90b1"
    assert unpinned(f"      - uses: actions/checkout@{commit} # v7.0.1") == []
    for reference in ("v7", "main", commit, commit[:12] + " # v7.0.1"):
        assert unpinned(f"      - uses: actions/checkout@{reference}"), reference


def test_an_image_without_a_digest_is_found() -> None:
    workflow = load("ci.yml")
    workflow["jobs"]["run"]["container"]["image"] = "debian:12"
    assert moving_images(workflow) == ["debian:12"]


def test_a_right_too_many_is_found() -> None:
    workflow = load("release.yml")
    changes: tuple[Callable[[Workflow], object], ...] = (
        lambda flow: flow.pop("permissions"),
        lambda flow: flow.pop("concurrency"),
        lambda flow: flow["permissions"].update({"id-token": "write"}),
        lambda flow: flow["jobs"]["build"].update({"permissions": {"contents": "write"}}),
        lambda flow: flow["jobs"]["build"].pop("timeout-minutes"),
        lambda flow: flow["jobs"]["publish"].pop("environment"),
        lambda flow: flow["jobs"]["publish"]["permissions"].update({"contents": "read"}),
        lambda flow: flow["jobs"]["publish"]["steps"].append({"uses": "actions/checkout@v7"}),
        lambda flow: flow[True].update({"pull_request_target": None}),
    )
    for change in changes:
        changed = copy.deepcopy(workflow)
        change(changed)
        assert right_faults(changed)


@pytest.mark.parametrize("command", ["make no-such-target", "hack/release/nothing.sh", "hack/crds/generate.py"])
def test_a_missing_program_is_found(command: str) -> None:
    assert missing_programs({"jobs": {"one": {"steps": [{"run": command}]}}})
    assert missing_programs({"jobs": {"one": {"steps": [{"run": "make dist && .ci/run"}, {"uses": "x"}]}}}) == []


def test_an_expression_in_a_command_is_found() -> None:
    assert injections({"jobs": {"one": {"steps": [{"run": "echo ${{ github.ref_name }}"}]}}})
