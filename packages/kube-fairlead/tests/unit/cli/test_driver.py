from __future__ import annotations

import pathlib
import socket

import pytest

from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main


def test_a_second_drain_driver_is_refused_and_leaves_the_first_its_sockets(
    short_path: pathlib.Path, unreachable_kubeconfig: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = short_path / "registry-plugins" / "drain.fairlead.dev.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first:
        first.bind(str(path))
        first.listen()
        flags = [f"--kubeconfig={unreachable_kubeconfig}", f"--registry-dir={short_path / 'registry'}"]
        assert main(["driver", "drain", *flags], environment=Environment({})) == 1
    assert capsys.readouterr().err == (
        f"Error: another process already serves {path};"
        " stop it, or start this one with another --instance;"
        " a driver for another node needs its own --registry-dir and --plugin-dir\n"
    )
    assert path.exists()
