from __future__ import annotations

import pathlib
import types

import pytest

from kube_fairlead.base import files


@pytest.mark.parametrize(("refusals", "is_written"), [(0, True), (4, True), (5, False)])
def test_on_windows_a_reader_is_in_the_way_for_a_moment_only(
    refusals: int, is_written: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "new", tmp_path / "old"
    source.write_text("new")
    target.write_text("old")
    replace, left = pathlib.Path.replace, [None] * refusals

    def refuse(self: pathlib.Path, other: pathlib.Path) -> pathlib.Path:
        if left:
            left.pop()
            raise PermissionError(13, "Access is denied")
        return replace(self, other)

    monkeypatch.setattr(pathlib.Path, "replace", refuse)
    monkeypatch.setattr(files, "os", types.SimpleNamespace(name="nt"))
    if is_written:
        files._replace(source, target)
    else:
        with pytest.raises(PermissionError):
            files._replace(source, target)
    assert target.read_text() == ("new" if is_written else "old")
