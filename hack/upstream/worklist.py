#!/usr/bin/env python3
"""Lists the modules whose upstream files changed between two pinned versions of Kubernetes.

    make upstream FROM=1.36 TO=1.37
    hack/upstream/worklist.py 1.36 1.37 [--only TEXT] [--diff]

The versions are those that hack/kube pins. The sources come from Go's module cache; what is missing there,
`go mod download` fetches under the user's own Go settings. Files of which only comments, layout or imports changed need
no work and are listed apart. A file that a module names at the newer version has been read already.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hack.upstream import provenance
from hack.upstream.comparison import Kind, Work, new_files, work

__all__ = ["SourcesMissing", "UsageError", "main", "report", "sources"]


class UsageError(Exception):
    """The command was called in a wrong way; exit code 2."""


class SourcesMissing(Exception):
    """The sources of a Go module cannot be had; exit code 1."""


def sources(minor: str, wanted: Mapping[str, str]) -> dict[str, Path]:
    """The folder of each Go module at its version, in Go's module cache."""
    go = shutil.which("go")
    if go is None:
        raise SourcesMissing("Go is not installed; install Go 1.26 or newer (https://go.dev/doc/install)")
    command = [go, "mod", "download", "-json", *(f"{module}@{wanted[module]}" for module in sorted(wanted))]
    done = subprocess.run(command, cwd=provenance.PINS / minor, check=False, capture_output=True, text=True)
    decoder, text, folders = json.JSONDecoder(), done.stdout.lstrip(), {}
    while text:
        answer, end = decoder.raw_decode(text)
        if "Dir" not in answer:
            reason = answer.get("Error", "has no folder")
            raise SourcesMissing(f"go mod download {answer['Path']}@{answer['Version']}: {reason}")
        folders[answer["Path"]] = Path(answer["Dir"])
        text = text[end:].lstrip()
    if missing := sorted(wanted.keys() - folders.keys()):
        raise SourcesMissing(f"go mod download has no answer for {', '.join(missing)}: {done.stderr.strip()}")
    return folders


def report(done: Work, beside: Sequence[str], *, older: str, newer: str, diffs: bool = False) -> Iterator[str]:
    """The worklist, line by line."""
    changes = done.changes
    open_modules = {
        name: [named for named in files if changes[named.module, named.path].needs_work]
        for name, files in sorted(done.files.items())
    }
    open_modules = {name: files for name, files in open_modules.items() if files}
    todo = {key for key, change in changes.items() if change.needs_work}
    yield f"Kubernetes {older} to {newer}: {len(open_modules)} of our modules follow {len(todo)} files that changed."
    yield "Lines are counted without comments and layout."
    for name, files in open_modules.items():
        yield ""
        yield name
        for named in files:
            change = changes[named.module, named.path]
            count = f"+{change.added} -{change.removed}"
            yield f"  {change.kind.value:<8} {count:>11}  {named.module}/{named.path}"
    for kind in (Kind.COMMENTS, Kind.IMPORTS):
        same = sorted(f"{module}/{path}" for (module, path), change in changes.items() if change.kind is kind)
        if same:
            yield ""
            yield f"No work, {kind.value}: {len(same)} files"
            yield from (f"  {path}" for path in same)
    if beside:
        yield ""
        yield f"New beside the named files, where code may have moved to: {len(beside)} files"
        yield from (f"  {path}" for path in beside)
    unchanged = sum(change.kind is Kind.UNCHANGED for change in changes.values())
    yield ""
    yield f"Unchanged: {unchanged} files. Modules that were read at {newer} already: {len(done.done)}."
    if diffs:
        for module, path in sorted(todo):
            yield ""
            yield f"==== {module}/{path} (code only, comments left out)"
            yield changes[module, path].diff or changes[module, path].kind.value


def _versions(minor: str, flag: str) -> Mapping[str, str]:
    known = provenance.pinned_minors()
    if minor not in known:
        problem = f"no Kubernetes {minor} is pinned" if minor else "no version is given"
        raise UsageError(f"{flag}: {problem}; known versions: {', '.join(known)}")
    return provenance.pinned_versions(minor)


def _run(arguments: argparse.Namespace) -> None:
    old_versions = _versions(arguments.older, "FROM")
    new_versions = _versions(arguments.newer, "TO")
    if arguments.older == arguments.newer:
        raise UsageError(f"FROM and TO: must be two versions, got {arguments.older} twice")
    modules = [module for module in provenance.modules() if arguments.only in module.name]
    named = {file.module for module in modules for file in module.files}
    old = sources(arguments.older, {name: old_versions[name] for name in named & old_versions.keys()})
    new = sources(arguments.newer, {name: new_versions[name] for name in named & new_versions.keys()})
    done = work(modules, old, new, new_versions)
    beside = new_files(done.changes, old, new)
    for line in report(done, beside, older=arguments.older, newer=arguments.newer, diffs=arguments.diff):
        print(line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the worklist; the exit code."""
    parser = argparse.ArgumentParser(prog="make upstream", usage="make upstream FROM=1.36 TO=1.37 [ONLY=text] [DIFF=1]")
    parser.add_argument("older", nargs="?", default="")
    parser.add_argument("newer", nargs="?", default="")
    parser.add_argument("--only", default="", help="only our modules whose name has this text in it")
    parser.add_argument("--diff", action="store_true", help="also print the differences")
    try:
        _run(parser.parse_args(arguments))
    except UsageError as error:
        print(f"make upstream: {error}", file=sys.stderr)
        return 2
    except SourcesMissing as error:
        print(f"make upstream: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
