"""What became of upstream files between two versions of their Go modules."""

from __future__ import annotations

import collections
import dataclasses
import difflib
import enum
from collections.abc import Iterable, Mapping
from pathlib import Path

from hack.upstream import gosource
from hack.upstream.provenance import Named, PythonModule

__all__ = ["Change", "Kind", "Work", "compare", "new_files", "work"]

# Generated from files that are compared themselves, or from nothing that is mirrored here.
_GENERATED = ("zz_generated.deepcopy", "zz_generated.conversion", "generated.pb", "types_swagger_doc")


class Kind(enum.Enum):
    """What became of an upstream file."""

    UNCHANGED = "unchanged"
    COMMENTS = "comments or layout only"
    IMPORTS = "imports only"
    CHANGED = "changed"
    REMOVED = "removed"
    ADDED = "added"


@dataclasses.dataclass(frozen=True)
class Change:
    """What became of one upstream file, and how many lines of code were added and removed."""

    kind: Kind
    added: int = 0
    removed: int = 0
    diff: str = dataclasses.field(default="", repr=False)

    @property
    def needs_work(self) -> bool:
        return self.kind in {Kind.CHANGED, Kind.REMOVED, Kind.ADDED}


def compare(old: Path | None, new: Path | None) -> Change:
    """What became of the file `old`, which is `new` in the newer version. Either may be missing."""
    before = old.read_text(encoding="utf-8") if old is not None and old.exists() else None
    after = new.read_text(encoding="utf-8") if new is not None and new.exists() else None
    if before == after:
        return Change(Kind.UNCHANGED)
    if after is None:
        return Change(Kind.REMOVED, removed=gosource.code(before or "").count("\n"))
    if before is None:
        return Change(Kind.ADDED, added=gosource.code(after).count("\n"))
    before, after = gosource.code(before), gosource.code(after)
    if before == after:
        return Change(Kind.COMMENTS)
    if gosource.without_imports(before) == gosource.without_imports(after):
        return Change(Kind.IMPORTS)
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return Change(Kind.CHANGED, added, removed, "\n".join(lines))


@dataclasses.dataclass(frozen=True)
class Work:
    """The files of each module that are still to be read at the newer version, and what became of every file."""

    files: Mapping[str, tuple[Named, ...]]  # by Python module
    changes: Mapping[tuple[str, str], Change]  # by Go module and path
    done: tuple[str, ...]  # Python modules of which every file was read at the newer version


def work(
    modules: Iterable[PythonModule], old: Mapping[str, Path], new: Mapping[str, Path], versions: Mapping[str, str]
) -> Work:
    """Compare all files that the modules name.

    Args:
        modules: our modules, and the files that each names.
        old: the folder of each Go module at the older version.
        new: the same at the newer version.
        versions: the newer version of each Go module. A file that was read at it is done.
    """
    files, changes, done = {}, {}, []
    for module in modules:
        open_files = tuple(
            named
            for named in module.files
            if old.get(named.module) == new.get(named.module) or not _is_read(named, versions)
        )
        if not open_files:
            done.append(module.name)
            continue
        files[module.name] = open_files
        for named in open_files:
            key = named.module, named.path
            if key not in changes:
                changes[key] = compare(_within(old, named), _within(new, named))
    return Work(files, changes, tuple(done))


def _is_read(named: Named, versions: Mapping[str, str]) -> bool:
    return versions.get(named.module) == named.version


def _within(folders: Mapping[str, Path], named: Named) -> Path | None:
    return folders[named.module] / named.path if named.module in folders else None


def new_files(named: Iterable[tuple[str, str]], old: Mapping[str, Path], new: Mapping[str, Path]) -> list[str]:
    """Sources that are new in the folders of named files: code that moved out of a named file is often there."""
    places = collections.defaultdict(set)
    for module, path in named:
        places[module].add(str(Path(path).parent))
    return sorted(
        f"{module}/{place}/{path.name}"
        for module, folders in places.items()
        if module in old and module in new
        for place in folders
        for path in (new[module] / place).glob("*.go")
        if not path.name.endswith("_test.go")
        and not path.name.startswith(_GENERATED)
        and not (old[module] / place / path.name).exists()
    )
