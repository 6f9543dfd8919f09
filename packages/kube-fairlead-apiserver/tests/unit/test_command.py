from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main

NO_ENVIRONMENT = Environment({})


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lifecycle-api-group=example.com"], "'example.com' is not one of 'lifecycle.k8s.io'"),
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
    assert not (tmp_path / "data").exists()


def test_a_folder_that_is_none_can_not_be_backed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["apiserver", f"--data-dir={tmp_path}", "backup", str(tmp_path / "copy")]
    assert main(arguments, environment=NO_ENVIRONMENT) == 1
    assert "name the server's --data-dir before `backup`" in capsys.readouterr().err


STARTED = """
import os, sys
import kube_fairlead_apiserver.command as under_test

def announce(running, settings):
    print(" ".join(sys.modules), flush=True)
    os._exit(0)

under_test._announce = announce
from kube_fairlead.cli.main import main
main(["apiserver", "--data-dir", sys.argv[1], "--secure-port=0"])
"""
NOT_YET = (
    "aiohttp",  # webhooks
    "cryptography",  # keys, made beside it, and tokens
    "kube_fairlead.api.core_v1",  # the client's types
    "kube_fairlead_apiserver.cel.environment",
    "kube_fairlead_apiserver.handlers",
    "kube_fairlead_apiserver.openapi.documents",
    "kube_fairlead_apiserver.patch.apply.server_side_apply",
    "kube_fairlead_apiserver.printers",
    "importlib.resources",
    "re2",
    "yaml",
)


def test_a_server_is_ready_without_what_only_requests_need(tmp_path: Path) -> None:
    for start in ("first", "later"):
        done = subprocess.run(
            [sys.executable, "-c", STARTED, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
        )
        loaded = set(done.stdout.split())
        assert "kube_fairlead_apiserver.server" in loaded, done.stderr
        assert not loaded & set(NOT_YET), start
