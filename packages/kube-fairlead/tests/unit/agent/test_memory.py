"""What an agent loads. It runs on every node; `python -m bench agent-memory` measures it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = """
import json, sys
import kube_fairlead.cli.agent
import kube_fairlead.agent.launch
import kube_fairlead.client.http
import kube_fairlead.client.kubeconfig
import kube_fairlead.agent.shutdown.assembly
import kube_fairlead.agent.shutdown.logind_listener
import kube_fairlead.agent.shutdown.systemd_kubelet
from kube_fairlead.agent.shutdown.cri.calls import CriCalls, unix_socket
from kube_fairlead.base.clock import RealClock
from kube_fairlead.driverapi import contracts
CriCalls(unix_socket("/nowhere"), RealClock()).make_ready()
contracts.message("fairlead.lifecycle.v1alpha1.Work")(event_name="x").SerializeToString()
print(json.dumps(sorted(sys.modules)))
"""
# Each is a megabyte or more, with what it brings.
TOO_LARGE = {
    "aiohttp",
    "cryptography",
    "dbus_fast",
    "email",
    "google",
    "http.client",
    "importlib.metadata",
    "importlib.resources",
    "prometheus_client",
    "rich",
    "tempfile",
    "unicodedata",
    "urllib.request",
    "xml",
    "zipfile",
}


@pytest.mark.skipif(sys.platform != "linux", reason="an agent on Windows loads other parts")
def test_an_agent_loads_nothing_large_that_it_does_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & TOO_LARGE
    assert not any(name.startswith("kube_fairlead.agent.windows.") for name in loaded)
