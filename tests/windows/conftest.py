"""Windows on this machine: Wine, an interpreter, and the headers."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterator

import pytest

from kube_fairlead_lab.testing import require_real
from tests.windows.wine import REPOSITORY, Wine

# `make test-windows` fetches the parts and says where they are by this variable, empty where it could not.
if "FAIRLEAD_WINDOWS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]

MINGW = REPOSITORY / "hack/windows/mingw.sh"


@dataclasses.dataclass(frozen=True)
class Parts:
    """The folder that hack/windows/fetch.sh made."""

    folder: pathlib.Path


@pytest.fixture(scope="session")
def parts() -> Parts:
    folder = os.environ.get("FAIRLEAD_WINDOWS", "")
    require_real("Wine and mingw-w64", present=bool(folder), remedy="run: make test-windows")
    return Parts(pathlib.Path(folder))


@pytest.fixture(scope="session")
def machine(parts: Parts) -> Iterator[Wine]:
    """A machine that is up, for everybody: tests use services of their own."""
    made = Wine(parts.folder)
    try:
        made.make()
        made.boot()
        yield made
    finally:
        made.off()
        made.remove()
