"""What several tests of the command line need."""

from __future__ import annotations

import pathlib

import pytest

_UNREACHABLE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: ""}}]
current-context: c
"""


@pytest.fixture(scope="session")
def unreachable_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A good kubeconfig of a server that nobody runs."""
    path = tmp_path_factory.mktemp("unreachable") / "kubeconfig"
    path.write_text(_UNREACHABLE)
    return path
