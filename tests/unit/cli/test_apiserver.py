from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.base.environment import Environment
from fairlead.cli.main import main

NO_ENVIRONMENT = Environment({})


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lifecycle-api-group=example.com"], "'example.com' is not one of lifecycle.k8s.io, lifecycle.fairlead.dev"),
        (["--data-dir={file}"], "--data-dir: {file} is a file; name a folder"),
        (["--kubeconfig-out={folder}"], "--kubeconfig-out: {folder} is a folder; name a file"),
        (["--controllers=everything"], "--controllers: 'everything' is not one of"),
        (["--secure-port=99999"], "99999 is not in the range"),
        (["--token-auth-file=/nowhere"], "does not exist"),
        (["--feature-gates=Unheard=true"], "Unheard"),
    ],
)
def test_bad_usage_is_one_line(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    names = {"file": file, "folder": tmp_path}
    arguments = ["apiserver", f"--data-dir={tmp_path / 'data'}", *(flag.format(**names) for flag in flags)]
    assert main(arguments, environment=NO_ENVIRONMENT) == 2
    said = capsys.readouterr().err
    assert words.format(**names) in said
    assert "Traceback" not in said


def test_a_folder_that_is_none_can_not_be_backed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["apiserver", f"--data-dir={tmp_path}", "backup", str(tmp_path / "copy")]
    assert main(arguments, environment=NO_ENVIRONMENT) == 1
    assert "name the server's --data-dir before `backup`" in capsys.readouterr().err
