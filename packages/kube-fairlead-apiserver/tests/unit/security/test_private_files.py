from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kube_fairlead_apiserver.security.private_files import read_private, write_private


def test_write_and_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    assert read_private(path) is None
    write_private(path, b"one")
    write_private(path, b"two")
    assert read_private(path) == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in path.parent.iterdir()] == ["file"]


def test_what_a_crash_left_is_in_nobodys_way(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / ".file.new").symlink_to(victim)
    write_private(tmp_path / "file", b"content")
    assert victim.read_text() == "untouched"
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    write_private(tmp_path / "file", b"old")
    with pytest.raises(TypeError):
        write_private(tmp_path / "file", "no bytes")  # type: ignore[arg-type]  # what is tested
    assert [found.name for found in tmp_path.iterdir()] == ["file"]
    assert read_private(tmp_path / "file") == b"old"
