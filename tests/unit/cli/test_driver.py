from __future__ import annotations

import pathlib
import socket

import pytest

from fairlead.base.environment import Environment
from fairlead.cli.main import main

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: ""}}]
current-context: c
"""


def test_a_second_drain_driver_is_refused_and_leaves_the_first_its_sockets(
    short_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = short_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    path = short_path / "plugins" / "drain.fairlead.dev.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first:
        first.bind(str(path))
        first.listen()
        arguments = ["driver", "drain", "--kubeconfig", str(kubeconfig), "--registry-dir", str(short_path / "registry")]
        assert main(arguments, environment=Environment({})) == 1
    assert capsys.readouterr().err == (
        f"Error: another process serves {path} already;"
        " stop it, or have this one serve beside it with another --instance\n"
    )
    assert path.exists()
