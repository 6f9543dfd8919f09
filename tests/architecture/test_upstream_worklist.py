"""`make upstream`: which of our modules have upstream files to read again (hack/upstream)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hack.upstream import comparison, gosource, provenance, worklist
from hack.upstream.comparison import Kind
from kube_fairlead_lab.testing import require_real
from tests.architecture.source import ROOT

GO = """// Copyright 2025 The Authors.

package rest

import "context"

// BeforeDelete prepares.
func BeforeDelete(ctx context.Context) error {
\treturn check(ctx, "// no comment", `/* nor
this */`, '"') // trailing
}
"""


def file(folder: Path, text: str, path: str = "pkg/delete.go") -> Path:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def became(tmp_path: Path, text: str) -> comparison.Change:
    return comparison.compare(file(tmp_path / "old", GO), file(tmp_path / "new", text))


def test_comments_and_layout_are_not_code() -> None:
    assert gosource.code("a  :=\t1 // one\n\n/* two\nlines */\nb") == "a := 1\nb\n"
    assert gosource.code("/* a */ b /* c */") == "b\n"


def test_comments_inside_text_are_code() -> None:
    assert "// no comment" in gosource.code(GO)
    assert "/* nor" in gosource.code(GO)
    assert "trailing" not in gosource.code(GO)


@pytest.mark.parametrize("instruction", ["//go:build linux", "// +k8s:required", "// +default=1", "//\t+optional"])
def test_instructions_are_code(instruction: str) -> None:
    assert gosource.code(f"{instruction}\nx") != gosource.code("x")


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("", "", Kind.UNCHANGED),
        ("2025", "2026", Kind.COMMENTS),
        ("// BeforeDelete prepares.\n", "", Kind.COMMENTS),
        ("\treturn", "\n\t  return", Kind.COMMENTS),
        ('import "context"', 'import (\n\t"context"\n\t"errors"\n)', Kind.IMPORTS),
        ("// no comment", "// still no comment", Kind.CHANGED),
        ("this */`", "those */`", Kind.CHANGED),
        ("check(", "verify(", Kind.CHANGED),
    ],
)
def test_what_became_of_a_file(tmp_path: Path, old: str, new: str, kind: Kind) -> None:
    assert became(tmp_path, GO.replace(old, new) if old else GO).kind is kind


def test_lines_of_code_are_counted(tmp_path: Path) -> None:
    change = became(tmp_path, GO.replace("\treturn check", "\t// why\n\tlog()\n\treturn check"))
    assert (change.added, change.removed) == (1, 0)
    assert "+log()" in change.diff


def test_a_removed_file_is_told_apart(tmp_path: Path) -> None:
    old = file(tmp_path / "old", GO)
    assert comparison.compare(old, tmp_path / "new" / "pkg" / "delete.go").kind is Kind.REMOVED
    assert comparison.compare(old, None).kind is Kind.REMOVED
    assert comparison.compare(None, old).kind is Kind.ADDED


def module(name: str, *paths: str, version: str = "v1") -> provenance.PythonModule:
    return provenance.PythonModule(name, tuple(provenance.Named("k8s.io/a", version, path) for path in paths))


def test_the_worklist(tmp_path: Path) -> None:
    for path in ("pkg/delete.go", "pkg/same.go", "pkg/comment.go", "gone/gone.go"):
        file(tmp_path / "old", GO, path)
    file(tmp_path / "new", GO.replace("check", "verify"), "pkg/delete.go")
    file(tmp_path / "new", GO, "pkg/same.go")
    file(tmp_path / "new", GO.replace("2025", "2026"), "pkg/comment.go")
    file(tmp_path / "new", GO, "pkg/fresh.go")
    file(tmp_path / "new", GO, "pkg/fresh_test.go")
    old, new = {"k8s.io/a": tmp_path / "old"}, {"k8s.io/a": tmp_path / "new"}
    modules = [
        module("kube_fairlead.b", "pkg/delete.go", "pkg/same.go"),
        module("kube_fairlead.a", "pkg/comment.go", "gone/gone.go"),
        module("kube_fairlead.c", "pkg/same.go", "pkg/comment.go"),
        module("kube_fairlead.d", "pkg/delete.go", version="v2"),
    ]
    done = comparison.work(modules, old, new, {"k8s.io/a": "v2"})
    beside = comparison.new_files(done.changes, old, new)
    lines = list(worklist.report(done, beside, older="1.36", newer="1.37"))
    assert lines[0] == "Kubernetes 1.36 to 1.37: 2 of our modules follow 2 files that changed."
    text = "\n".join(lines)
    assert text.index("kube_fairlead.a") < text.index("kube_fairlead.b")
    assert "  changed        +1 -1  k8s.io/a/pkg/delete.go" in lines
    assert any(line.startswith("  removed") and line.endswith("k8s.io/a/gone/gone.go") for line in lines)
    assert "No work, comments or layout only: 1 files\n  k8s.io/a/pkg/comment.go" in text
    assert "\n  k8s.io/a/pkg/fresh.go\n" in text
    assert "fresh_test" not in text
    assert "kube_fairlead.c" not in text
    assert lines[-1] == "Unchanged: 1 files. Modules that were read at 1.37 already: 1."
    assert "+return verify" in "\n".join(worklist.report(done, beside, older="1.36", newer="1.37", diffs=True))


def test_a_file_of_an_unchanged_go_module_is_unchanged(tmp_path: Path) -> None:
    file(tmp_path, GO)
    folders = {"k8s.io/a": tmp_path}
    done = comparison.work([module("kube_fairlead.b", "pkg/delete.go")], folders, folders, {"k8s.io/a": "v1"})
    assert [change.kind for change in done.changes.values()] == [Kind.UNCHANGED]
    assert done.done == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "FROM: no version is given; known versions: 1.34, 1.35, 1.36, 1.37"),
        (["1.36"], "TO: no version is given"),
        (["1.36", "1.99"], "TO: no Kubernetes 1.99 is pinned; known versions: 1.34"),
        (["v1.36.4", "1.37"], "FROM: no Kubernetes v1.36.4 is pinned"),
        (["1.36", "1.36"], "FROM and TO: must be two versions, got 1.36 twice"),
    ],
)
def test_bad_versions_are_usage_errors(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert worklist.main(arguments) == 2
    output = capsys.readouterr()
    assert words in output.err
    assert output.out == ""


def test_missing_sources_fail_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert worklist.main(["1.36", "1.37"]) == 1
    assert capsys.readouterr().err.startswith("make upstream: Go is not installed; install Go")


def test_a_failed_download_names_the_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = json.dumps({"Path": "k8s.io/api", "Version": "v0.36.4", "Error": "not found"})
    go = file(tmp_path, f"#!/bin/sh\necho '{answer}'\nexit 1\n", "go")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(worklist.SourcesMissing, match=r"k8s\.io/api@v0\.36\.4: not found"):
        worklist.sources("1.36", {"k8s.io/api": "v0.36.4"})


@pytest.mark.kube
def test_every_changed_file_of_the_next_minor_is_worked_through() -> None:
    """docs/upstream-1.37.md has an entry for each file that `make upstream FROM=1.36 TO=1.37` lists."""
    require_real("Go", present=shutil.which("go") is not None, remedy="install Go 1.26 or newer")
    command = [sys.executable, "hack/upstream/worklist.py", "1.36", "1.37"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode == 1:
        require_real("the source of the pinned Kubernetes", present=False, remedy=done.stderr.strip())
    assert done.returncode == 0, done.stderr
    listed = {line.split()[-1] for line in done.stdout.splitlines() if line.startswith(("  changed", "  removed"))}
    assert done.stdout.startswith("Kubernetes 1.36 to 1.37: "), done.stdout
    page = (ROOT / "docs" / "upstream-1.37.md").read_text(encoding="utf-8")
    assert [path for path in sorted(listed) if f"`{path}`" not in page] == []
