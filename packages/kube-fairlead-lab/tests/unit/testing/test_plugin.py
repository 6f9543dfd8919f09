"""The plugin in a project of its own, where pytest finds it by its entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WORKS = """
import json, ssl, urllib.request

def test_it(fairlead_apiserver):
    access = fairlead_apiserver.access()
    context = ssl.create_default_context(cafile=str(access.ca_file))
    request = urllib.request.Request(
        access.url + "/api/v1/namespaces", headers={"Authorization": f"Bearer {access.token}"}
    )
    with urllib.request.urlopen(request, context=context) as answer:
        names = {item["metadata"]["name"] for item in json.load(answer)["items"]}
    assert "default" in names
    assert fairlead_apiserver.kubeconfig.is_file()

def test_shared(fairlead_shared_apiserver):
    assert fairlead_shared_apiserver.url.startswith("https://127.0.0.1:")
"""

FAILS = """
def test_it(fairlead_apiserver):
    assert fairlead_apiserver.kind == "unheard of"
"""

HEAVY = """
import sys

def test_it():
    assert not {"aiohttp", "cryptography", "yaml", "kube_fairlead_lab.testing.embedded"} & set(sys.modules)
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_operator.py").write_text(code, encoding="utf-8")
    # Without the other plugins of this environment.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:kopf", "-p", "no:schemathesis"]
    return subprocess.run([*command, "test_operator.py"], cwd=folder, capture_output=True, text=True, check=False)


def test_a_running_server(tmp_path: Path) -> None:
    result = run(tmp_path, WORKS)
    assert "2 passed" in result.stdout, result.stdout


def test_a_failure_shows_the_servers_log(tmp_path: Path) -> None:
    result = run(tmp_path, FAILS)
    assert "1 failed" in result.stdout
    assert "embedded control plane at https://127.0.0.1:" in result.stdout
    assert "fairlead apiserver is ready on" in result.stdout
    assert "its data is kept in " in result.stdout


def test_nothing_is_imported_that_is_not_used(tmp_path: Path) -> None:
    result = run(tmp_path, HEAVY)
    assert "1 passed" in result.stdout, result.stdout
