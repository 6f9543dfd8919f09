"""What is protected, and what is refused. That rights are set is seen under Wine."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from kube_fairlead.agent.windows import folders

REPARSE_POINT = 0x400


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "fairlead"
    (made / "shutdown" / "deeper").mkdir(parents=True)
    (made / "shutdown" / "state.json").write_text("{}")
    (made / "agent.log").write_text("")
    return made


def visited(folder: pathlib.Path) -> list[str]:
    found: list[str] = []
    folders.walk(folder, lambda path: found.append(path.name))
    return found


def test_everything_is_visited_and_a_folder_before_what_is_in_it(folder: pathlib.Path) -> None:
    assert visited(folder) == ["fairlead", "agent.log", "shutdown", "deeper", "state.json"]


@pytest.mark.parametrize("place", ["elsewhere", "shutdown/elsewhere"])
@pytest.mark.parametrize("what", ["a folder", "a file", "nothing"])
def test_a_link_is_refused_and_what_it_leads_to_is_not_touched(
    folder: pathlib.Path, tmp_path: pathlib.Path, place: str, what: str
) -> None:
    target = tmp_path / "system"
    if what == "a folder":
        (target / "inside").mkdir(parents=True)
    elif what == "a file":
        target.write_text("")
    (folder / place).symlink_to(target)
    found: list[pathlib.Path] = []
    with pytest.raises(folders.LinkFound, match="elsewhere is a junction or a symbolic link: remove it"):
        folders.walk(folder, found.append)
    assert not [path for path in found if path.name in {"elsewhere", "inside", "system"}]


def test_a_folder_that_is_a_link_itself_is_refused(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(folders.LinkFound, match="link is a junction"):
        visited(link)


@pytest.mark.parametrize(("attributes", "expected"), [(REPARSE_POINT | 0x10, True), (0x10, False), (0, False)])
def test_a_junction_is_known_by_its_attributes(attributes: int, expected: bool) -> None:
    """Windows marks it; Python 3.11 does not take it for a symbolic link, and rglob walks into it."""

    class Status:
        st_file_attributes = attributes

    status: Any = Status()
    assert folders._leads_elsewhere(status) is expected
