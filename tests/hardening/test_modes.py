"""Who else on the machine can read what a server keeps."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kube_fairlead_lab.testing import ControlPlaneFailed, EmbeddedControlPlane

SECRET = ("fairlead.db*", "pki/*.key", "admin.kubeconfig")


def kept(folder: Path) -> list[Path]:
    return [path for pattern in SECRET for path in [*folder.glob(pattern), *folder.glob(f"data/{pattern}")]]


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in kept(folder) if path.parent != folder / "pki"}


async def test_files_that_were_opened_to_others_are_closed_again(tmp_path: Path) -> None:
    plane = EmbeddedControlPlane(tmp_path)
    try:
        await plane.start()
        assert len(modes(tmp_path)) > 3
        assert set(modes(tmp_path).values()) == {0o600}
        await plane.stop_server()
        for path in kept(tmp_path):
            path.chmod(0o644)
        # Where an operator moved damaged files aside. A folder without its x bit could not be entered any more.
        aside = next(tmp_path.rglob("fairlead.db")).with_name("fairlead.db-aside")
        aside.mkdir(mode=0o755)
        await plane.start_server()
        assert stat.S_IMODE(aside.stat().st_mode) == 0o755
        aside.rmdir()
        assert set(modes(tmp_path).values()) == {0o600}
    finally:
        await plane.stop()


async def test_a_tokens_file_that_everybody_can_read(tmp_path: Path) -> None:
    plane = EmbeddedControlPlane(tmp_path)
    (tmp_path / "tokens.csv").chmod(0o644)
    with pytest.raises(ControlPlaneFailed, match=r"--token-auth-file: .*tokens.csv can be read by every user"):
        await plane.start()
